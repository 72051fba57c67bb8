package vfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBlockDevice(t *testing.T) {
	sysfs := t.TempDir()
	write := func(name, text string) {
		full := filepath.Join(sysfs, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o700))
		require.NoError(t, os.WriteFile(full, []byte(text), 0o600))
	}
	write("devices/pci/block/nvme0n1/queue/rotational", "0\n")
	write("devices/pci/block/nvme0n1/nvme0n1p2/partition", "2\n")
	write("devices/ata/block/sda/queue/rotational", "1\n")
	write("devices/ufs/block/sdb/queue/rotational", "0\n")
	require.NoError(t, os.MkdirAll(filepath.Join(sysfs, "dev", "block"), 0o700))
	for number, target := range map[string]string{"259:2": "pci/block/nvme0n1/nvme0n1p2", "8:0": "ata/block/sda", "8:16": "ufs/block/sdb"} {
		require.NoError(t, os.Symlink("../../devices/"+target, filepath.Join(sysfs, "dev", "block", number)))
	}
	for _, c := range []struct {
		major, minor uint32
		want         [2]string
	}{
		{259, 2, [2]string{"nvme0n1", "NVMe"}}, {8, 0, [2]string{"sda", "hard disk"}}, {8, 16, [2]string{"sdb", "flash"}}, {0, 40, [2]string{}},
	} {
		name, kind := blockDevice(sysfs, c.major, c.minor)
		require.Equal(t, c.want, [2]string{name, kind}, "%d:%d", c.major, c.minor)
	}
	require.NotEmpty(t, StorageOf(sysfs).FileSystem)
	require.Empty(t, StorageOf(filepath.Join(sysfs, "no")))
}
