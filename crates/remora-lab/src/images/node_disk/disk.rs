//! A bootable disk without loop devices: everything is written at its place in one sparse file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::tree::EPOCH;
use super::NodeDiskError;
use crate::build::{Log, run};

const MIB: u64 = 1 << 20;
const SECTOR: u64 = 512;
/// The whole disk; the file and the container disk hold only what is written.
const DISK: u64 = 8192 * MIB;
/// Where the boot partition begins: as every partitioning tool aligns.
const BOOT_START: u64 = MIB;
/// The boot partition: syslinux, kernel and initrd.
const BOOT_SIZE: u64 = 48 * MIB;
const ROOT_START: u64 = BOOT_START + BOOT_SIZE;
/// Fixed, so that two disks of the same content differ in times only.
const ROOT_UUID: &str = "5b6f0a52-95a8-4c54-9d5a-7a2d6e6f6465";
const BOOT_ID: &str = "6e6f6465";
/// syslinux's code for the first 440 bytes, from Debian's syslinux-common.
const BOOT_CODE: &str = "/usr/lib/syslinux/mbr/mbr.bin";

/// What the boot partition holds.
pub(crate) struct Boot<'a> {
    /// The kernel.
    pub(crate) kernel: &'a Path,
    /// The initrd.
    pub(crate) initrd: &'a Path,
    /// The configuration of syslinux.
    pub(crate) configuration: &'a Path,
}

/// Makes the disk `output` (qcow2) of a root folder. `work` is for temporary files.
pub(crate) fn make(
    root: &Path,
    boot: &Boot<'_>,
    output: &Path,
    work: &Path,
    log: &Log,
) -> Result<(), NodeDiskError> {
    let raw = work.join("disk.raw");
    write_partition_table(&raw).map_err(NodeDiskError::io("partition", &raw))?;
    make_boot_partition(&raw, boot, log)?;
    make_root_partition(&raw, root, log)?;
    run(
        Command::new("qemu-img")
            .args(["convert", "-O", "qcow2", "-c", "-o", "compression_type=zstd"])
            .arg(&raw)
            .arg(output),
        log,
    )?;
    fs::remove_file(&raw).map_err(NodeDiskError::io("remove", &raw))
}

fn write_partition_table(raw: &Path) -> io::Result<()> {
    let mut file = File::create(raw)?;
    file.set_len(DISK)?;
    let mut code = fs::read(BOOT_CODE)?;
    code.resize(440, 0);
    file.write_all(&code)?;
    file.seek(SeekFrom::Start(0))?;
    let table = partition_table();
    file.seek(SeekFrom::Start(446))?;
    file.write_all(&table)
}

/// The last 66 bytes of the first sector: a bootable FAT and a Linux partition, and the signature.
fn partition_table() -> [u8; 66] {
    let mut table = [0; 66];
    let entries =
        [(0x80, 0x0c, BOOT_START, BOOT_SIZE), (0x00, 0x83, ROOT_START, DISK - ROOT_START)];
    for (entry, (flag, kind, start, size)) in table.chunks_exact_mut(16).zip(entries) {
        // Cylinders and heads are from another age: out of range, which means "see the sectors".
        let beyond = [0xfe, 0xff, 0xff];
        let bytes = [flag].into_iter().chain(beyond).chain([kind]).chain(beyond);
        let sectors = sectors(start).into_iter().chain(sectors(size));
        for (to, from) in entry.iter_mut().zip(bytes.chain(sectors)) {
            *to = from;
        }
    }
    if let Some(signature) = table.last_chunk_mut() {
        *signature = [0x55, 0xaa];
    }
    table
}

/// A place on the disk as the partition table says it.
fn sectors(bytes: u64) -> [u8; 4] {
    u32::try_from(bytes / SECTOR).unwrap_or(u32::MAX).to_le_bytes()
}

fn make_boot_partition(raw: &Path, boot: &Boot<'_>, log: &Log) -> Result<(), NodeDiskError> {
    let start = BOOT_START / SECTOR;
    run(
        Command::new("mkfs.fat")
            .env("SOURCE_DATE_EPOCH", EPOCH.to_string())
            .args(["-F", "16", "-i", BOOT_ID])
            .args(["-h", &start.to_string(), "--offset", &start.to_string()])
            .arg(raw)
            .arg((BOOT_SIZE / 1024).to_string()),
        log,
    )?;
    for (file, name) in
        [(boot.kernel, "vmlinuz"), (boot.initrd, "initrd"), (boot.configuration, "syslinux.cfg")]
    {
        run(
            Command::new("mcopy")
                .arg("-i")
                .arg(at_offset(raw, BOOT_START))
                .arg(file)
                .arg(format!("::/{name}")),
            log,
        )?;
    }
    run(
        Command::new("syslinux").args(["--install", "--offset", &BOOT_START.to_string()]).arg(raw),
        log,
    )?;
    Ok(())
}

/// How mtools name a file system inside a file.
fn at_offset(raw: &Path, offset: u64) -> PathBuf {
    let mut name = raw.as_os_str().to_owned();
    name.push(format!("@@{offset}"));
    name.into()
}

fn make_root_partition(raw: &Path, root: &Path, log: &Log) -> Result<(), NodeDiskError> {
    // mkfs takes the size from its argument, and the file has to reach that far.
    OpenOptions::new()
        .write(true)
        .open(raw)
        .and_then(|file| file.set_len(DISK))
        .map_err(NodeDiskError::io("size", raw))?;
    run(
        Command::new("mkfs.ext4")
            .env("E2FSPROGS_FAKE_TIME", EPOCH.to_string())
            .args(["-q", "-F", "-L", "root", "-U", ROOT_UUID, "-m", "0", "-N", "200000"])
            // Checksums of metadata cost processor time, which an emulated machine lacks.
            .args(["-O", "^metadata_csum", "-J", "size=16"])
            .arg("-E")
            .arg(format!(
                "offset={ROOT_START},hash_seed={ROOT_UUID},lazy_itable_init=1,\
                 lazy_journal_init=1,nodiscard"
            ))
            .arg("-d")
            .arg(root)
            .arg(raw)
            .arg(format!("{}k", (DISK - ROOT_START) / 1024)),
        log,
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_the_table_is_written_the_partitions_follow_each_other() {
        let table = partition_table();
        assert_eq!(table[0], 0x80, "the first is bootable");
        assert_eq!((table[4], table[20]), (0x0c, 0x83), "FAT and Linux");
        let number = |at: usize| u32::from_le_bytes(table[at..at + 4].try_into().unwrap());
        assert_eq!(number(8), 2048);
        assert_eq!(number(8) + number(12), number(24));
        assert_eq!(u64::from(number(24) + number(28)) * SECTOR, DISK);
        assert_eq!(table[64..], [0x55, 0xaa]);
    }
}
