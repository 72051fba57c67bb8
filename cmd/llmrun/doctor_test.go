package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/internal/deviceplan"
)

func TestScrubber(t *testing.T) {
	p := scrubber{"/data/people/alice"}
	for message, want := range map[string]string{
		"open /data/people/alice/.cache/llmrun/x: denied":    "open ~/.cache/llmrun/x: denied",
		"open /srv/bob/cache: no such file":                  "open …: no such file",
		"libOpenCL.so.1: cannot open shared object":          "libOpenCL.so.1: cannot open shared object",
		"/srv/bob/lib/libonnxruntime.so.1.20: wrong class":   "libonnxruntime.so.1.20: wrong class",
		`open C:\Users\bob\x.pack: denied`:                   "open …: denied",
		"reads of 4 KiB/s, on and/or off":                    "reads of 4 KiB/s, on and/or off",
		"/data/people/alice: is a link; /data/people/alicex": "~: is a link; …",
	} {
		require.Equal(t, want, p.text(message))
	}
	require.Equal(t, "~/.cache/llmrun", p.path("/data/people/alice/.cache/llmrun"))
	require.Equal(t, "outside ~", p.path("/data/people/alicex/cache"))
	require.Equal(t, "outside ~", scrubber{}.path("/data"))
}

// TestDoctorReport compares a report of stated figures.
func TestDoctorReport(t *testing.T) {
	r := doctorReport{
		Version: "llmrun v1.0.0 go1.26 linux/arm64", Model: "the bundled demo model: llama, 28.5 MiB of weights",
		Diagnosis: &bench.Diagnosis{
			Machine: bench.Machine{OS: "linux", Arch: "arm64", Processors: 4, Kernels: "neon"}, System: "Linux 6.12.1", Processor: "Raspberry Pi 5 Model B",
			Threads: 4, QuotaProcessors: 1.5, LimitBytes: 2 << 30, MemoryBytes: 4 << 30, AvailableBytes: 1 << 30, PageBytes: 16384,
			Disk:    bench.Disk{FileSystem: "ext4", Device: "mmcblk0", Kind: "SD card or eMMC", FreeBytes: 3 << 30, FlashGBs: 0.0871},
			ReadGBs: 9.94, Int8Gops: 151.3, Instruction: "SDOT",
		},
		Cache:   doctorCache{Dir: "~/.cache/llmrun", Packs: 1, PackBytes: 1 << 20, KVBytes: 2 << 20},
		Devices: []deviceplan.DeviceInfo{{Kind: "CPU", Description: "cores"}, {Kind: "GPU", Description: "V3D"}},
		Missing: []deviceplan.MissingDriver{{Driver: "onnx", Kind: "NPU", Reason: "this build has no support for NPUs"}},
	}
	r.Limits = r.Diagnosis.Limits()
	var out bytes.Buffer
	r.write(&out)
	require.Equal(t, `build       llmrun v1.0.0 go1.26 linux/arm64
system      Linux 6.12.1
processor   Raspberry Pi 5 Model B; 4 processors; 4 threads by default; neon kernels; a quota of 1.5 processors
memory      4.00 GiB; limited to 2.00 GiB by a control group; 1.00 GiB for a model without --ram; pages of 16.0 KiB
cache       ~/.cache/llmrun: 1 pack, 1.0 MiB; keys and values 2.0 MiB
disk        ext4; on mmcblk0, SD card or eMMC; 3.00 GiB free
device      GPU: V3D
no device   NPU, onnx: this build has no support for NPUs
model       the bundled demo model: llama, 28.5 MiB of weights
measured    reads from memory 9.9 GB/s; 151 Gop/s of 8-bit integers (SDOT); reads from the cache's disk 0.09 GB/s
limits      a model that fits in memory: by reads from memory, at most 9.9 tok/s for each GB of weights that a token needs
limits      what does not fit: by reads from flash, at most 0.087 tok/s for each GB that a token reads there
limits      a quota: 1.5 of 4 processors
limits      a control group: it permits less memory than the machine has
`, out.String())
}

// TestDoctorTellsNoNames runs the command in a home directory with a name that must not appear, nor that of the machine.
func TestDoctorTellsNoNames(t *testing.T) {
	program, err := exec.LookPath("llmrun")
	require.NoError(t, err)
	home := filepath.Join(t.TempDir(), "secretname")
	require.NoError(t, os.Mkdir(home, 0o700))
	command := exec.Command(program, "doctor", "--json")
	command.Env = append(os.Environ(), "HOME="+home, "XDG_CACHE_HOME=", "LLMRUN_ONNXRUNTIME="+filepath.Join(home, "lib.so"), "USER=secretname")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	require.NoError(t, err, "%s", stderr.String())
	require.NotContains(t, string(out)+stderr.String(), "secretname")
	require.NotContains(t, string(out), os.TempDir())
	if host, err := os.Hostname(); err == nil && len(host) > 4 {
		require.NotContains(t, string(out), host)
	}
	var report map[string]any
	require.NoError(t, json.Unmarshal(out, &report))
	require.Equal(t, "~/.cache/llmrun", report["cache"].(map[string]any)["dir"])
	require.Positive(t, report["int8_gop_s"])
	left, err := os.ReadDir(home)
	require.NoError(t, err)
	require.Empty(t, left, "doctor left files")
}
