package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"time"

	"github.com/llmrun/llmrun/hetero/rates"
	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// A Diagnosis is what a machine has, and what was measured of what limits a model.
type Diagnosis struct {
	Machine
	System    string `json:"system,omitempty"`    // the kernel and the distribution
	Processor string `json:"processor,omitempty"` // its name, or the machine's
	MatrixAMX bool   `json:"amx"`
	Threads   int    `json:"threads"` // that compute, without --threads
	// QuotaProcessors and LimitBytes are what the control groups of the process permit; 0 = all.
	QuotaProcessors float64 `json:"quota_processors,omitempty"`
	LimitBytes      int64   `json:"limit_bytes,omitempty"`
	MemoryBytes     int64   `json:"memory_bytes"`    // 0 = unknown
	AvailableBytes  int64   `json:"available_bytes"` // for a model without --ram; 0 = unknown
	PageBytes       int     `json:"page_bytes"`
	// Load is how many programs wanted a processor in the last minute, on average, before anything was measured; 0 = unknown.
	Load float64 `json:"load"`

	Disk Disk `json:"disk"` // of the cache directory

	ReadGBs     float64 `json:"read_gb_s"` // from memory; 0 = not measured
	Int8Gops    float64 `json:"int8_gop_s"`
	Instruction string  `json:"int8_instruction"`
}

// Disk describes the disk of a directory.
type Disk struct {
	FileSystem  string  `json:"file_system,omitempty"`
	Device      string  `json:"device,omitempty"`
	Kind        string  `json:"kind,omitempty"`
	FreeBytes   int64   `json:"free_bytes"`             // 0 = unknown
	FlashGBs    float64 `json:"flash_gb_s"`             // reads past the page cache; 0 = not measured
	Unmeasured  string  `json:"reason,omitempty"`       // why it was not measured
	SampleBytes int64   `json:"sample_bytes,omitempty"` // of the file that was read
}

// inMemory is the file system of directories in memory.
const inMemory = "tmpfs"

const (
	// diagnosisSweep is the memory that a diagnosis reads, more than most caches hold.
	diagnosisSweep = 256 << 20
	// sampleBytes is the file that a diagnosis writes and reads, sampleTime the longest time to write it, and sampleSpare
	// the free space that it leaves.
	sampleBytes = 64 << 20
	sampleTime  = 3 * time.Second
	sampleSpare = 256 << 20
	samplePiece = 1 << 20
	readTime    = 400 * time.Millisecond
)

// Diagnose describes this machine and the disk of a directory that exists. It takes a few seconds, and writes a
// file of 64 MiB there, which has no name while it is read.
func Diagnose(ctx context.Context, dir string) (*Diagnosis, error) {
	machine := tiering.ReadMachine()
	d := &Diagnosis{
		Machine: ThisMachine(), MatrixAMX: quant.Tiles(), Threads: threadpool.DefaultThreads(), PageBytes: os.Getpagesize(),
		QuotaProcessors: machine.Processors, LimitBytes: machine.Limit, MemoryBytes: machine.Total, AvailableBytes: tiering.Available(),
	}
	d.System, d.Processor, d.Load = describeSystem(), describeProcessor(), loadOf(os.DirFS("/"))
	if err := d.measureLimits(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	storage := vfs.StorageOf(dir)
	d.Disk = Disk{FileSystem: storage.FileSystem, Device: storage.Name, Kind: storage.Kind}
	d.Disk.FreeBytes, _ = vfs.FreeSpace(vfs.OS(), dir)
	if err := d.Disk.measure(ctx, dir); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		d.Disk.Unmeasured = err.Error()
	}
	return d, nil
}

// measureLimits measures what memory and the processor do at most.
func (d *Diagnosis) measureLimits() error {
	sweep := diagnosisSweep
	if d.AvailableBytes > 0 {
		sweep = int(min(diagnosisSweep, d.AvailableBytes/4))
	}
	limits := Limits{SweepBytes: sweep}
	if err := limits.measure([]int{d.Threads}); err != nil {
		return err
	}
	d.ReadGBs, d.Int8Gops, d.Instruction = limits.ReadGBs, limits.Int8Gops, limits.Instruction
	return nil
}

var (
	errNoDirectReads = errors.New("reads go through the page cache here, which would be measured")
	errNoRoom        = errors.New("too little free space")
	errInMemory      = errors.New("it is in memory")
)

// measure writes a file that has no name and reads it past the page cache.
func (d *Disk) measure(ctx context.Context, dir string) (err error) {
	if d.FileSystem == inMemory {
		return errInMemory
	}
	if d.FreeBytes > 0 && d.FreeBytes < sampleBytes+sampleSpare {
		return errNoRoom
	}
	file, err := vfs.Scratch(vfs.OS(), dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if !vfs.Queueable(file) {
		return errNoDirectReads
	}
	if d.SampleBytes, err = writeSample(ctx, file, time.Now().Add(sampleTime)); err != nil {
		return err
	}
	d.FlashGBs, err = rates.Flash(tiering.New(0), io.ReaderAt(file), d.SampleBytes, samplePiece, readTime)
	if err == nil && !vfs.Queueable(file) { // the file system refused a direct read
		d.FlashGBs, err = 0, errNoDirectReads
	}
	return err
}

// writeSample fills a file with bytes that no file system compresses, until it is long enough or a deadline.
func writeSample(ctx context.Context, file vfs.File, deadline time.Time) (n int64, err error) {
	piece := make([]byte, samplePiece)
	random := rand.NewChaCha8([32]byte{1})
	for n < sampleBytes && (n < 2*samplePiece || time.Now().Before(deadline)) {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		_, _ = random.Read(piece) // it never fails
		if _, err := file.WriteAt(piece, n); err != nil {
			return n, err
		}
		n += samplePiece
	}
	return n, file.Sync()
}

// Limits says in sentences what limits a model on this machine.
func (d *Diagnosis) Limits() (list []string) {
	if d.ReadGBs > 0 {
		list = append(list, fmt.Sprintf("a model that fits in memory: by reads from memory, at most %s tok/s for each GB of weights that a token needs", shortRate(d.ReadGBs)))
	}
	if d.Disk.FlashGBs > 0 {
		list = append(list, fmt.Sprintf("what does not fit: by reads from flash, at most %s tok/s for each GB that a token reads there", shortRate(d.Disk.FlashGBs)))
	}
	if d.Load > float64(d.Processors)/2 {
		list = append(list, fmt.Sprintf("other programs: %.1f of them wanted the %d processors in the last minute, so that what was measured is too low", d.Load, d.Processors))
	}
	if d.Kernels == "portable" {
		list = append(list, "the processor: it, or this build, has no vector instructions that llmrun uses, so that computing limits before memory does")
	}
	if d.QuotaProcessors > 0 && d.QuotaProcessors < float64(d.Processors) {
		list = append(list, fmt.Sprintf("a quota: %.3g of %d processors", d.QuotaProcessors, d.Processors))
	}
	if d.LimitBytes > 0 {
		list = append(list, "a control group: it permits less memory than the machine has")
	}
	if d.Disk.FileSystem == inMemory {
		list = append(list, "the cache directory: it is in memory, where imported models take what they should save")
	}
	return list
}

// shortRate formats a rate with two digits.
func shortRate(x float64) string {
	if x >= 10 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.2g", x)
}

// describeSystem names the kernel, and the distribution where that is known.
func describeSystem() string {
	if runtime.GOOS == "linux" || runtime.GOOS == "android" {
		return linuxSystem(os.DirFS("/"), runtime.GOOS)
	}
	return ""
}

// describeProcessor names the processor, or the machine where its processor has no name.
func describeProcessor() string {
	switch runtime.GOOS {
	case "linux", "android":
		return linuxProcessor(os.DirFS("/"))
	case "windows":
		return os.Getenv("PROCESSOR_IDENTIFIER")
	}
	return ""
}
