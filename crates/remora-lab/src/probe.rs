//! Whether KVM works here, found out by booting: `/dev/kvm` may be there and run no guest, or run
//! one without the processor's help, more slowly than emulation does.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::LabError;

/// A guest that runs at all ends at once; one that does not may hang for ever.
const DEADLINE: Duration = Duration::from_secs(5);
/// The port of QEMU's device that ends QEMU.
const EXIT_PORT: u8 = 0xf4;
const EXIT_VALUE: u8 = 0x21;
const SECTOR: usize = 512;

/// A boot sector that writes the value to the port and halts.
fn boot_sector() -> [u8; SECTOR] {
    let mut sector = [0; SECTOR];
    // mov al, value; out port, al; hlt; jmp to hlt
    let program = [0xb0, EXIT_VALUE, 0xe6, EXIT_PORT, 0xf4, 0xeb, 0xfd];
    for (byte, instruction) in sector.iter_mut().zip(program) {
        *byte = instruction;
    }
    let [.., first, second] = &mut sector;
    (*first, *second) = (0x55, 0xaa);
    sector
}

/// Whether the processor has the extensions for guests, and a guest of seven bytes runs by KVM.
pub(crate) fn kvm_works() -> Result<bool, LabError> {
    let cpuinfo = "/proc/cpuinfo";
    let text = std::fs::read_to_string(cpuinfo).map_err(LabError::file("read", cpuinfo))?;
    Ok(has_extensions(&text) && guest_runs()?)
}

/// Intel's and AMD's names of the extensions, among the processor's flags.
fn has_extensions(cpuinfo: &str) -> bool {
    let mut flags = cpuinfo.lines().filter(|line| line.starts_with("flags"));
    flags.any(|line| line.split_whitespace().any(|flag| flag == "vmx" || flag == "svm"))
}

fn guest_runs() -> Result<bool, LabError> {
    let mut disk = tempfile::NamedTempFile::new().map_err(LabError::system("make a boot disk"))?;
    disk.write_all(&boot_sector()).map_err(LabError::file("write", disk.path()))?;
    let program = "qemu-system-x86_64";
    let mut guest = Command::new(program)
        .args(["-accel", "kvm", "-m", "16", "-nodefaults", "-display", "none", "-no-reboot"])
        .args(["-device", &format!("isa-debug-exit,iobase={EXIT_PORT:#x},iosize=1")])
        .args(["-drive", &format!("file={},format=raw,if=ide", disk.path().display())])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|source| LabError::Start { program: program.to_owned(), source })?;
    let began = Instant::now();
    loop {
        let ended = guest.try_wait().map_err(LabError::system("wait for the trial guest"))?;
        if let Some(status) = ended {
            return Ok(status.code() == Some(exit_status()));
        }
        if began.elapsed() > DEADLINE {
            guest.kill().map_err(LabError::system("end the trial guest"))?;
            guest.wait().map_err(LabError::system("wait for the trial guest"))?;
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What QEMU makes of a value written to its exit device.
fn exit_status() -> i32 {
    i32::from(EXIT_VALUE) << 1 | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_the_processor_has_no_extensions_no_guest_is_tried() {
        assert!(has_extensions("processor: 0\nflags\t\t: fpu vmx sse\n"));
        assert!(!has_extensions("processor: 0\nflags\t\t: fpu vmxoff sse\nmodel name: svm\n"));
    }

    #[test]
    fn when_the_sector_is_made_a_bios_takes_it_for_bootable() {
        let sector = boot_sector();
        assert!(sector.starts_with(&[0xb0, 0x21, 0xe6, 0xf4]));
        assert!(sector.ends_with(&[0x55, 0xaa]));
        assert_eq!(exit_status(), 67);
    }
}
