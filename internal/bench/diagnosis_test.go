package bench

import (
	"context"
	"os"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store/vfs"
)

func mapFS(files map[string]string) fstest.MapFS {
	root := fstest.MapFS{}
	for path, text := range files {
		root[path] = &fstest.MapFile{Data: []byte(text)}
	}
	return root
}

func TestLinuxIsDescribed(t *testing.T) {
	desktop := mapFS(map[string]string{
		"proc/sys/kernel/osrelease": "6.12.1\n", "etc/os-release": "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 13\"\n",
		"proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD  EPYC\nprocessor: 1\nmodel name\t: other\n",
	})
	require.Equal(t, "Linux 6.12.1 (Debian GNU/Linux 13)", linuxSystem(desktop, "linux"))
	require.Equal(t, "AMD EPYC", linuxProcessor(desktop))
	board := mapFS(map[string]string{
		"proc/cpuinfo":           "CPU implementer\t: 0x41\nCPU part\t: 0xd0b\n\nCPU implementer\t: 0x41\nCPU part\t: 0xd05\n",
		"proc/device-tree/model": "Raspberry Pi 5 Model B Rev 1.0\x00",
	})
	require.Equal(t, "Android", linuxSystem(mapFS(nil), "android"))
	require.Equal(t, "Raspberry Pi 5 Model B Rev 1.0, cores 0x41/0xd05, 0x41/0xd0b", linuxProcessor(board))
	require.Empty(t, linuxProcessor(mapFS(nil)))
	require.InDelta(t, 2.25, loadOf(mapFS(map[string]string{"proc/loadavg": "2.25 1.00 0.50 3/400 999\n"})), 0)
	require.Zero(t, loadOf(mapFS(nil)))
}

func TestLimitsAreNamed(t *testing.T) {
	d := &Diagnosis{Machine: Machine{Kernels: "avx2", Processors: 4}}
	require.Empty(t, d.Limits())
	d.ReadGBs, d.Disk.FlashGBs, d.QuotaProcessors, d.LimitBytes, d.Disk.FileSystem, d.Kernels = 12.4, 0.523, 1.5, 1<<30, "tmpfs", "portable"
	d.Load = 2.5
	all := d.Limits()
	require.Len(t, all, 7)
	require.Contains(t, all[0], "at most 12 tok/s for each GB")
	require.Contains(t, all[1], "at most 0.52 tok/s for each GB")
	require.Contains(t, all[2], "2.5 of them wanted the 4 processors")
	require.Contains(t, all[4], "1.5 of 4 processors")
}

// TestSampleEndsInTime writes a sample with a deadline that has passed, and a cancelled one.
func TestSampleEndsInTime(t *testing.T) {
	file, err := vfs.NewMem().Create("sample")
	require.NoError(t, err)
	n, err := writeSample(context.Background(), file, time.Time{})
	require.NoError(t, err)
	require.EqualValues(t, 2*samplePiece, n)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = writeSample(ctx, file, time.Time{})
	require.ErrorIs(t, err, context.Canceled)
}

// TestDiagnosisLeavesNoFile measures the disk of a directory.
func TestDiagnosisLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	var d Disk
	err := d.measure(context.Background(), dir)
	if err == nil {
		require.Positive(t, d.FlashGBs)
		require.Positive(t, d.SampleBytes)
	} else {
		require.ErrorIs(t, err, errNoDirectReads)
	}
	require.ErrorIs(t, (&Disk{FileSystem: "tmpfs"}).measure(context.Background(), dir), errInMemory)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
	d.FreeBytes = sampleBytes
	require.ErrorIs(t, d.measure(context.Background(), dir), errNoRoom)
}
