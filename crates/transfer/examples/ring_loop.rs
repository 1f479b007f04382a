//! Random reads of one file by a bare ring: no latencies, no plan, nothing but the kernel's part.
//!
//! What `stormlp gds` makes of the same reads is held against it by `benches/compare/gds_vs_fio.py`.
//! Prints reads per second and microseconds of CPU time for each.
//!
//!     ring_loop FILE BLOCK_BYTES DEPTH BATCH SECONDS

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, types};

/// What to read, and how.
struct Task {
    file: File,
    block_bytes: usize,
    /// Reads in flight.
    depth: usize,
    /// Reads that go to the kernel at once.
    batch: usize,
    time: Duration,
}

impl Task {
    fn from_args() -> Result<Self, Box<dyn std::error::Error>> {
        let args: Vec<String> = std::env::args().skip(1).collect();
        let [file, block, depth, batch, seconds] = args.as_slice() else {
            return Err("usage: ring_loop FILE BLOCK_BYTES DEPTH BATCH SECONDS".into());
        };
        Ok(Self {
            file: File::open(file)?,
            block_bytes: block.parse()?,
            depth: depth.parse()?,
            batch: batch.parse::<usize>()?.max(1),
            time: Duration::from_secs_f64(seconds.parse()?),
        })
    }

    /// Reads until the time is up; how many reads that were.
    fn run(&self) -> io::Result<u64> {
        let mut ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(self.depth.next_power_of_two() as u32)?;
        // Never freed: after an error the kernel may still write to it.
        let memory = vec![0u8; self.depth * self.block_bytes].leak();
        let vectors: Vec<libc::iovec> = memory
            .chunks_exact_mut(self.block_bytes)
            .map(|buffer| libc::iovec {
                iov_base: buffer.as_mut_ptr().cast(),
                iov_len: buffer.len(),
            })
            .collect();
        // SAFETY: the buffers lie in `memory`, which is never freed.
        unsafe { ring.submitter().register_buffers(&vectors)? };
        ring.submitter().register_files(&[self.file.as_raw_fd()])?;
        let blocks = self.file.metadata()?.len() / self.block_bytes as u64;
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        let mut push = |ring: &mut IoUring, index: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let offset = random % blocks * self.block_bytes as u64;
            let address = vectors[index].iov_base.cast();
            let length = self.block_bytes as u32;
            let entry = opcode::ReadFixed::new(types::Fixed(0), address, length, index as u16)
                .offset(offset)
                .build()
                .user_data(index as u64);
            // SAFETY: the buffer has no other read in flight and is never freed.
            unsafe { ring.submission().push(&entry) }.map_err(io::Error::other)
        };
        for index in 0..self.depth {
            push(&mut ring, index)?;
        }
        let (mut reads, mut over) = (0u64, Vec::with_capacity(self.depth));
        let end = Instant::now() + self.time;
        while Instant::now() < end {
            ring.submit_and_wait(self.batch)?;
            over.extend(ring.completion());
            for entry in over.drain(..) {
                if entry.result() != self.block_bytes as i32 {
                    return Err(io::Error::other(format!("a read of {}", entry.result())));
                }
                reads += 1;
                push(&mut ring, entry.user_data() as usize)?;
            }
        }
        Ok(reads)
    }
}

/// User and system time of this process.
fn cpu_time() -> Duration {
    let time = |clock| Duration::try_from(rustix::time::clock_gettime(clock)).unwrap_or_default();
    time(rustix::time::ClockId::ProcessCPUTime)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let task = Task::from_args()?;
    let (cpu, begun) = (cpu_time(), Instant::now());
    let reads = task.run()?;
    let (cpu, seconds) = (cpu_time() - cpu, begun.elapsed().as_secs_f64());
    writeln!(
        io::stdout(),
        "{:.0} {:.3}",
        reads as f64 / seconds,
        cpu.as_secs_f64() * 1e6 / reads as f64
    )?;
    Ok(())
}
