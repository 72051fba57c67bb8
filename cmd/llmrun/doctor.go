package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/deviceplan"
)

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name:     "doctor",
		Synopsis: "[--cache-dir DIR] [--json]",
		Summary:  "report what this machine has, and what limits a model on it",
		About: `Prints a report to paste where somebody helps: the build, the system, the processor and its kernels, memory and the limits of control groups, the cache directory and its disk, GPUs and NPUs, and the model in this program. It measures how fast memory is read, how fast the processor multiplies, and how fast the disk of the cache directory is read, in a few seconds: for the disk it writes 64 MiB to a file without a name, which is gone afterwards. It then says what limits decoding.

The report has no names of users, machines or models' files, and no paths but those below the home directory, which it writes as ~.

--json prints one object: version, system, processor, kernels, amx, processors, threads, quota_processors, memory_bytes, available_bytes, limit_bytes, page_bytes, load, disk with file_system, device, kind, free_bytes, flash_gb_s, sample_bytes and reason (why it was not measured), read_gb_s, int8_gop_s, int8_instruction, cache with dir, packs, pack_bytes and kv_bytes, devices and missing as llmrun devices prints them, model, and limits, a list of sentences.`,
		Examples: []cli.Example{
			{Line: "llmrun doctor", Purpose: "a report to paste"},
			{Line: "llmrun doctor --cache-dir media/llmrun", Purpose: "with another disk for imported models"},
			{Line: "llmrun doctor --json", Purpose: "the same for a script"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			d := &doctorFlags{}
			f.Group("Output")
			f.Toggle(&d.json, "json", "print one JSON object")
			f.Group("Cache")
			d.cache.addPath(f)
			f.Setting("cache-dir")
			return d.run
		},
	}
}

// doctorFlags are the flags of doctor.
type doctorFlags struct {
	cache cacheFlags
	json  bool
}

// A doctorReport is what doctor prints.
type doctorReport struct {
	Version string `json:"version"`
	*bench.Diagnosis
	Cache   doctorCache                `json:"cache"`
	Devices []deviceplan.DeviceInfo    `json:"devices"`
	Missing []deviceplan.MissingDriver `json:"missing"`
	Model   string                     `json:"model"` // in this program
	Limits  []string                   `json:"limits"`
}

// doctorCache describes the cache directory.
type doctorCache struct {
	Dir       string `json:"dir"`
	Packs     int    `json:"packs"`
	PackBytes int64  `json:"pack_bytes"`
	KVBytes   int64  `json:"kv_bytes"`
	Error     string `json:"error,omitempty"`
}

func (d *doctorFlags) run(ctx context.Context, s *cli.Streams, args []string) error {
	if err := cli.NoArguments(args); err != nil {
		return err
	}
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	home, _ := os.UserHomeDir() // without one, no path begins with it
	private := scrubber{home}
	r := doctorReport{Version: fmt.Sprint(thisVersion()), Model: describeOwnModel(private)}
	dir, err := d.cache.directory()
	if err != nil {
		dir = os.TempDir()
	}
	r.Cache = describeCache(dir, private)
	if err != nil {
		r.Cache = doctorCache{Error: private.text(err.Error())}
	}
	if r.Diagnosis, err = bench.Diagnose(ctx, existingParent(dir)); err != nil {
		return cli.Interruption(ctx, err)
	}
	r.Disk.Unmeasured = private.text(r.Disk.Unmeasured)
	devices := deviceplan.Devices()
	for i := range devices.Missing {
		devices.Missing[i].Reason = private.text(devices.Missing[i].Reason)
	}
	r.Devices, r.Missing, r.Limits = notNull(devices.Devices), notNull(devices.Missing), notNull(r.Diagnosis.Limits())
	return cli.Present(s, d.json, r, r.write)
}

// existingParent returns the directory, or the nearest one above it that exists.
func existingParent(dir string) string {
	for {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			return dir
		}
		dir = up
	}
}

// describeCache returns the size of what the cache directory holds.
func describeCache(dir string, private scrubber) doctorCache {
	c := doctorCache{Dir: private.path(dir)}
	packs, err := llmrun.CachedPacks(dir)
	if err != nil {
		c.Error = private.text(err.Error())
		return c
	}
	c.Packs, c.PackBytes = len(packs), packBytes(packs)
	saved, err := llmrun.SessionDir{Path: dir}.KV()
	if err != nil {
		c.Error = private.text(err.Error())
	}
	c.KVBytes = saved.Bytes
	return c
}

// describeOwnModel describes the model of commands without -m.
func describeOwnModel(private scrubber) string {
	m := &modelFlags{}
	path, options, err := m.source()
	if err != nil {
		return private.text(err.Error())
	}
	inspection, err := llmrun.Inspect(path, options)
	if err != nil {
		return nameDefaultModel(defaultModel) + ": " + private.text(err.Error())
	}
	defer inspection.Close()
	info := inspection.Info()
	return fmt.Sprintf("%s: %s, %s of weights", nameDefaultModel(defaultModel), info.Family, cli.FormatBytes(info.WeightBytes))
}

// write prints the report for a person.
func (r doctorReport) write(w io.Writer) {
	line := func(label, format string, args ...any) {
		fmt.Fprintf(w, "%-10s  %s\n", label, cli.VisibleLine(fmt.Sprintf(format, args...)))
	}
	line("build", "%s", r.Version)
	if r.System != "" {
		line("system", "%s", r.System)
	}
	line("processor", "%s", r.processorText())
	line("memory", "%s", r.memoryText())
	line("cache", "%s", r.Cache.text())
	line("disk", "%s", diskText(&r.Disk))
	for _, d := range r.Devices {
		if d.Kind != "CPU" {
			line("device", "%s: %s", d.Kind, d.Description)
		}
	}
	for _, m := range r.Missing {
		line("no device", "%s, %s: %s", m.Kind, m.Driver, m.Reason)
	}
	line("model", "%s", r.Model)
	line("measured", "%s", r.measuredText())
	for _, text := range r.Limits {
		line("limits", "%s", text)
	}
}

func (r doctorReport) processorText() string {
	parts := []string{}
	if r.Processor != "" {
		parts = append(parts, r.Processor)
	}
	kernels := r.Kernels + " kernels"
	if r.MatrixAMX {
		kernels += " and AMX"
	}
	parts = append(parts, countOf(r.Processors, "processor"), fmt.Sprintf("%s by default", countOf(r.Threads, "thread")), kernels)
	if r.QuotaProcessors > 0 {
		parts = append(parts, fmt.Sprintf("a quota of %.3g processors", r.QuotaProcessors))
	}
	return strings.Join(parts, "; ")
}

func (r doctorReport) memoryText() string {
	parts := []string{}
	if r.MemoryBytes > 0 {
		parts = append(parts, cli.FormatBytes(r.MemoryBytes))
	}
	if r.LimitBytes > 0 {
		parts = append(parts, fmt.Sprintf("limited to %s by a control group", cli.FormatBytes(r.LimitBytes)))
	}
	if r.AvailableBytes > 0 {
		parts = append(parts, fmt.Sprintf("%s for a model without --ram", cli.FormatBytes(r.AvailableBytes)))
	}
	return strings.Join(append(parts, fmt.Sprintf("pages of %s", cli.FormatBytes(int64(r.PageBytes)))), "; ")
}

func (c doctorCache) text() string {
	if c.Error != "" {
		return strings.TrimPrefix(c.Dir+": ", ": ") + c.Error
	}
	return fmt.Sprintf("%s: %s, %s; keys and values %s", c.Dir, countOf(c.Packs, "pack"), cli.FormatBytes(c.PackBytes), cli.FormatBytes(c.KVBytes))
}

// diskText describes the disk of the cache directory.
func diskText(d *bench.Disk) string {
	parts := []string{}
	if d.FileSystem != "" {
		parts = append(parts, d.FileSystem)
	}
	if d.Device != "" {
		parts = append(parts, strings.TrimSuffix(fmt.Sprintf("on %s, %s", d.Device, d.Kind), ", "))
	}
	if d.FreeBytes > 0 {
		parts = append(parts, cli.FormatBytes(d.FreeBytes)+" free")
	}
	if len(parts) == 0 {
		return "unknown"
	}
	return strings.Join(parts, "; ")
}

func (r doctorReport) measuredText() string {
	parts := []string{}
	if r.ReadGBs > 0 {
		parts = append(parts, fmt.Sprintf("reads from memory %.1f GB/s", r.ReadGBs))
	}
	parts = append(parts, fmt.Sprintf("%.0f Gop/s of 8-bit integers (%s)", r.Int8Gops, r.Instruction))
	if r.Disk.FlashGBs > 0 {
		parts = append(parts, fmt.Sprintf("reads from the cache's disk %.2f GB/s", r.Disk.FlashGBs))
	} else {
		parts = append(parts, "the cache's disk not: "+r.Disk.Unmeasured)
	}
	return strings.Join(parts, "; ")
}

// A scrubber takes names of users out of what a report shows.
type scrubber struct{ home string }

// absolutePath finds paths in a message.
var absolutePath = regexp.MustCompile(`(?:/[^\s/"',;:()]+){2,}/?|[A-Za-z]:\\[^\s"',;:()]+`)

// libraryName finds the names of libraries, which are worth to be known.
var libraryName = regexp.MustCompile(`(?i)[\w.+-]+\.(so[.\d]*|dll|dylib)$`)

// path returns a path below the home directory with ~, and no other path.
func (p scrubber) path(name string) string {
	if abs, err := filepath.Abs(name); err == nil {
		name = abs
	}
	rel, err := filepath.Rel(p.home, name)
	if p.home == "" || err != nil || !filepath.IsLocal(rel) {
		return "outside ~"
	}
	return filepath.ToSlash(filepath.Join("~", rel))
}

// text returns a message without absolute paths, except below the home directory and of libraries.
func (p scrubber) text(message string) string {
	return absolutePath.ReplaceAllStringFunc(message, func(name string) string {
		if lib := libraryName.FindString(name); lib != "" {
			return lib
		}
		if short := p.path(name); strings.HasPrefix(short, "~") {
			return short
		}
		return "…"
	})
}
