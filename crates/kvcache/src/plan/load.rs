//! The load generator: users who send requests at their own pace, conversations, and the order in
//! which requests are served. No clock: the caller supplies the time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use stormlp_core::mt19937::Mt19937;

use super::users::{Class, User, between, whole_between};

/// A conversation goes on after a turn with this probability.
const GOES_ON: f64 = 0.8;
/// It has at most this many turns.
const MOST_TURNS: u32 = 50;
/// Of so many conversations the objects are known; the least recently used is forgotten first.
const MOST_CONVERSATIONS: usize = 1000;
/// From this many tokens on, a request only writes its object.
const ONLY_PREFILL_TOKENS: u32 = 10_000;
/// Tokens generated from each further read of a request's object.
const TOKENS_PER_READ: u32 = 32;
/// A request begins with a system prompt with this probability.
const WITH_PROMPT: f64 = 0.2;
/// Tokens of each of the system prompts.
const PROMPT_TOKENS: [u32; 3] = [5, 9, 6];
/// Spread of the time between the requests of a user.
const THINK: [f64; 2] = [0.8, 1.2];

/// A request to the inference server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The name of its object.
    pub key: String,
    /// Tokens of its context, and so of its object.
    pub context_tokens: u32,
    /// Tokens to generate.
    pub generate_tokens: u32,
    /// How soon it is to be served.
    pub class: Class,
    /// When it was sent, in nanoseconds since the start.
    pub sent_ns: u64,
    /// Its conversation, and which turn of it this is.
    pub turn: Option<(u64, u32)>,
}

impl Request {
    /// Whether its object is read after it is written.
    pub fn decodes(&self) -> bool {
        self.context_tokens < ONLY_PREFILL_TOKENS
    }

    /// How often its object is read again after the first time.
    pub fn further_reads(&self) -> u32 {
        self.generate_tokens.div_ceil(TOKENS_PER_READ).max(1)
    }
}

/// A conversation of a user.
struct Conversation {
    id: String,
    keys: Vec<String>,
    /// Its place in the order of use.
    used: u64,
}

/// Conversations with known objects.
#[derive(Default)]
struct Conversations {
    known: HashMap<u64, Conversation>,
    by_use: BTreeMap<u64, u64>,
    begun: u64,
    uses: u64,
}

impl Conversations {
    /// Begins a conversation and forgets the least recently used, if there are too many.
    fn begin(&mut self, id: String) -> u64 {
        if self.known.len() >= MOST_CONVERSATIONS
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.known.remove(&oldest);
        }
        self.begun += 1;
        self.uses += 1;
        self.by_use.insert(self.uses, self.begun);
        self.known.insert(self.begun, Conversation { id, keys: Vec::new(), used: self.uses });
        self.begun
    }

    /// Registers the next turn; its number and the name of its object, or `None` if the
    /// conversation was forgotten.
    fn add_turn(&mut self, conversation: u64) -> Option<(u32, String)> {
        let known = self.known.get_mut(&conversation)?;
        self.by_use.remove(&known.used);
        self.uses += 1;
        known.used = self.uses;
        self.by_use.insert(self.uses, conversation);
        let turn = known.keys.len() as u32 + 1;
        let key = format!("{}_turn_{turn}", known.id);
        known.keys.push(key.clone());
        Some((turn, key))
    }

    fn turns(&self, conversation: u64) -> Option<u32> {
        self.known.get(&conversation).map(|known| known.keys.len() as u32)
    }
}

/// All users and their requests.
pub struct Load {
    users: Vec<User>,
    /// The open conversation of each user.
    open: Vec<Option<u64>>,
    random: Mt19937,
    /// When each user sends next, in nanoseconds since the start.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    conversations: Conversations,
    sent: u64,
}

impl Load {
    /// The requests of `users`, drawn from the generator that drew them.
    pub fn new(users: Vec<User>, random: Mt19937) -> Self {
        let mut load = Self {
            open: vec![None; users.len()],
            due: BinaryHeap::new(),
            conversations: Conversations::default(),
            sent: 0,
            users,
            random,
        };
        (0..load.users.len()).for_each(|user| load.think(user, 0));
        load
    }

    /// Lets a user wait for its next request.
    fn think(&mut self, user: usize, now_ns: u64) {
        let seconds = self.users[user].think_seconds * between(&mut self.random, THINK);
        self.due.push(Reverse((now_ns + (seconds * 1e9) as u64, user)));
    }

    /// When the next request is sent, in nanoseconds since the start.
    pub fn next_due_ns(&self) -> u64 {
        self.due.peek().map_or(u64::MAX, |Reverse((due, _))| *due)
    }

    /// The next request; `unix_ms` names a conversation that begins with it.
    pub fn send(&mut self, unix_ms: u64) -> Option<Request> {
        let Reverse((sent_ns, user)) = self.due.pop()?;
        let conversation = self.conversation_of(user, unix_ms);
        let User { class, context_tokens, generation_tokens, .. } = self.users[user];
        let mut draw = |most: u32| whole_between(&mut self.random, [(most / 4).max(1), most]);
        let (context_tokens, generate_tokens) = (draw(context_tokens), draw(generation_tokens));
        let nth = self.sent;
        self.sent += 1;
        let (turn, key) = match self.conversations.add_turn(conversation) {
            Some((turn, key)) => (Some((conversation, turn)), key),
            None => (None, format!("user_{user:04}_req_{nth:06}")),
        };
        self.think(user, sent_ns);
        Some(Request { key, context_tokens, generate_tokens, class, sent_ns, turn })
    }

    /// The conversation that a user's next request belongs to.
    fn conversation_of(&mut self, user: usize, unix_ms: u64) -> u64 {
        let going_on = self.open[user].filter(|_| self.random.next_f64() < GOES_ON);
        let open = going_on
            .filter(|open| self.conversations.turns(*open).is_some_and(|turns| turns < MOST_TURNS));
        let conversation = open
            .unwrap_or_else(|| self.conversations.begin(format!("conv_user_{user:04}_{unix_ms}")));
        self.open[user] = Some(conversation);
        conversation
    }

    /// The tokens of the system prompt that a request begins with; `None` without one. No prompt is
    /// ever stored: looking for it is a miss.
    pub fn prompt(&mut self) -> Option<u32> {
        if self.random.next_f64() >= WITH_PROMPT {
            return None;
        }
        Some(PROMPT_TOKENS[self.random.next_below(PROMPT_TOKENS.len() as u32) as usize])
    }

    /// The objects of all other turns of a request's conversation that were sent by now.
    pub fn other_turns(&self, request: &Request) -> Vec<String> {
        let Some((conversation, turn)) = request.turn.filter(|(_, turn)| *turn > 1) else {
            return Vec::new();
        };
        let known = self.conversations.known.get(&conversation);
        let keys = known.into_iter().flat_map(|known| (1..).zip(&known.keys));
        keys.filter(|(nth, _)| *nth != turn).map(|(_, key)| key.clone()).collect()
    }

    /// Requests sent so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }
}

/// Requests that wait to be served: the most urgent class first, then in the order they were sent.
#[derive(Default)]
pub struct Queue {
    waiting: BTreeMap<(Reverse<Class>, u64), Request>,
    pushed: u64,
}

impl Queue {
    /// Adds a request.
    pub fn push(&mut self, request: Request) {
        self.pushed += 1;
        self.waiting.insert((Reverse(request.class), self.pushed), request);
    }

    /// Returns the next request to serve.
    pub fn pop(&mut self) -> Option<Request> {
        self.waiting.pop_first().map(|(_, request)| request)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::users::draw;
    use super::*;

    fn load(count: u32, seed: u32) -> Load {
        let mut random = Mt19937::of_python(seed);
        let users = draw(&mut random, count);
        Load::new(users, random)
    }

    #[test]
    fn the_requests_of_one_user_are_the_originals() {
        // The original at --num-users 1 --seed 42: context and turn of its first requests.
        let mut load = load(1, 42);
        let sent: Vec<Request> = (0..6).filter_map(|_| load.send(1)).collect();
        let tokens: Vec<u32> = sent.iter().map(|request| request.context_tokens).collect();
        assert_eq!(tokens, [5740, 13_735, 7872, 15_792, 11_420, 6676]);
        let turns: Vec<u32> = sent.iter().filter_map(|one| Some(one.turn?.1)).collect();
        assert_eq!(turns, [1, 2, 3, 4, 5, 1]);
    }

    #[test]
    fn bytes_read_for_each_written_are_as_in_the_original() {
        // Users weighted by how often they send: 4.43 reads, 4,417 tokens. The first half minute has
        // slightly fewer requests of users who think for long.
        let mut load = load(5_000, 7);
        let (mut read, mut written, mut requests) = (0u64, 0u64, 0u64);
        for _ in 0..400_000 {
            let request = load.send(0).unwrap();
            let tokens = u64::from(request.context_tokens);
            written += tokens;
            requests += 1;
            if request.decodes() {
                read += tokens * u64::from(1 + request.further_reads());
            }
        }
        let (ratio, mean) = (read as f64 / written as f64, written as f64 / requests as f64);
        assert!((4.33..4.48).contains(&ratio), "{ratio}");
        assert!((4350.0..4480.0).contains(&mean), "{mean}");
    }

    #[test]
    fn urgent_requests_overtake_others_in_the_order_they_were_sent() {
        let mut queue = Queue::default();
        let mut load = load(50, 42);
        (0..200).filter_map(|_| load.send(0)).for_each(|request| queue.push(request));
        assert_eq!(queue.len(), 200);
        let served: Vec<Request> = std::iter::from_fn(|| queue.pop()).collect();
        let order: Vec<_> = served.iter().map(|one| (Reverse(one.class), one.sent_ns)).collect();
        assert!(order.is_sorted());
        assert!(queue.is_empty());
    }

    #[test]
    fn a_request_knows_the_other_turns_sent_by_now() {
        let mut load = load(1, 42);
        let sent: Vec<Request> = (0..30).filter_map(|_| load.send(5)).collect();
        let second = sent.iter().find(|one| one.turn.is_some_and(|(_, turn)| turn == 2)).unwrap();
        let same = |one: &&Request| one.turn.map(|turn| turn.0) == second.turn.map(|turn| turn.0);
        let others: Vec<String> = sent
            .iter()
            .filter(same)
            .map(|one| one.key.clone())
            .filter(|key| *key != second.key)
            .collect();
        assert_eq!(load.other_turns(second), others);
    }

    #[test]
    fn the_least_recently_used_conversation_is_forgotten() {
        let mut conversations = Conversations::default();
        let first = conversations.begin("a".to_string());
        let second = conversations.begin("b".to_string());
        conversations.add_turn(first).unwrap();
        for nth in 2..=MOST_CONVERSATIONS {
            conversations.begin(nth.to_string());
        }
        assert_eq!(conversations.turns(second), None);
        assert_eq!(conversations.turns(first), Some(1));
    }
}
