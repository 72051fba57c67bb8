package vfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// fileSystems are the names of file systems by the number that statfs returns.
var fileSystems = map[uint32]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.XFS_SUPER_MAGIC: "xfs", unix.F2FS_SUPER_MAGIC: "f2fs",
	unix.TMPFS_MAGIC: "tmpfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.NFS_SUPER_MAGIC: "nfs", unix.FUSE_SUPER_MAGIC: "fuse",
	unix.EXFAT_SUPER_MAGIC: "exfat", unix.MSDOS_SUPER_MAGIC: "vfat", unix.V9FS_MAGIC: "9p", unix.SMB2_SUPER_MAGIC: "smb",
	unix.SQUASHFS_MAGIC: "squashfs", 0x2fc12fc1: "zfs", 0xca451a4e: "bcachefs",
}

// StorageOf describes what files of a directory are stored on.
func StorageOf(dir string) (d Storage) {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return d
	}
	number := uint32(s.Type)
	if d.FileSystem = fileSystems[number]; d.FileSystem == "" {
		d.FileSystem = fmt.Sprintf("%#x", number)
	}
	var info unix.Stat_t
	if unix.Stat(dir, &info) == nil {
		d.Name, d.Kind = blockDevice("/sys", unix.Major(info.Dev), unix.Minor(info.Dev))
	}
	return d
}

// blockDevice returns the name and kind of a disk, or of the disk of a partition, as sysfs tells them.
func blockDevice(sysfs string, major, minor uint32) (name, kind string) {
	at, err := filepath.EvalSymlinks(filepath.Join(sysfs, "dev", "block", fmt.Sprintf("%d:%d", major, minor)))
	if err != nil {
		return "", "" // not on one block device, as in btrfs and overlay, or not told, as on Android
	}
	if _, err := os.Stat(filepath.Join(at, "partition")); err == nil {
		at = filepath.Dir(at)
	}
	name = filepath.Base(at)
	rotates, _ := os.ReadFile(filepath.Join(at, "queue", "rotational"))
	for _, known := range []struct{ prefix, kind string }{
		{"nvme", "NVMe"}, {"mmcblk", "SD card or eMMC"}, {"vd", "virtual disk"}, {"xvd", "virtual disk"}, {"dm-", "mapped device"}, {"loop", "loop device"}, {"zram", "compressed memory"}, {"md", "RAID"},
	} {
		if strings.HasPrefix(name, known.prefix) {
			return name, known.kind
		}
	}
	switch strings.TrimSpace(string(rotates)) {
	case "1":
		return name, "hard disk"
	case "0":
		return name, "flash"
	}
	return name, ""
}
