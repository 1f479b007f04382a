//! Transfers with the kernel's peer-to-peer DMA switched on, where a GPU offers memory for it.

use crate::bytes::cells;
use crate::report::Report;
use crate::route::Expected;
use crate::scene::Scene;

/// Writes and reads with the DMA on and fallbacks forbidden.
pub(crate) fn all(scene: &Scene, report: &mut Report) {
    let what = "peer-to-peer DMA switched on";
    if !scene.preflight().has_p2pdma {
        return report.skip(what, "no GPU has a p2pmem/size above 0");
    }
    let folder = scene.folder("p2pdma");
    let words = format!(
        "gds --dir {} --device cuda:0 --path gds --op write,read --verify --duration 1x \
         --file-size 16M --threads 1,8 --io-size 4K,1M --cache as-is --require gds --format json",
        folder.display()
    );
    let mut command = scene.program("stormlp", "direct");
    command.env("CUFILE_USE_PCIP2PDMA", "true");
    let ended = scene.run(command.args(words.split_whitespace()));
    cells(what, &ended.json(), Expected::Direct, report);
}
