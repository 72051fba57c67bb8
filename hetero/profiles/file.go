package profiles

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/solve"
	"github.com/llmrun/llmrun/store/vfs"
)

const (
	// Name is the file's name in its directory.
	Name    = "devices.json"
	version = 2
	maxSize = 16 << 20
)

// File holds the measurements of a machine's devices.
type File struct {
	Version int                     `json:"version"`
	Devices map[string]solve.Record `json:"devices"` // by Key
	Pairs   map[string]Pair         `json:"pairs"`   // by both keys
	// Memory is what drivers take of the machine's memory; see Settle.
	Memory map[string]int64 `json:"memory,omitempty"`
	// Needs is what models take with a device, by a key of the caller; see SetNeed.
	Needs map[string]json.RawMessage `json:"needs,omitempty"`
}

// Pair holds the measurements of two devices together.
type Pair struct {
	Slowdowns []solve.Slowdown `json:"slowdowns"`
	Checks    []Check          `json:"checks"`
	Trials    []Trial          `json:"trials,omitempty"`
	Copies    []CopyTime       `json:"copies,omitempty"`
}

// Check compares the time of a split matmul with the time on each device alone.
type Check struct {
	solve.Shape
	Pieces []solve.Piece   `json:"pieces"`
	Split  time.Duration   `json:"split_ns"`
	Alone  []time.Duration `json:"alone_ns"`
}

// Key identifies a device by everything that its times depend on.
func Key(name, description string) string {
	return fmt.Sprintf("%s on %s/%s, %d processors: %s", name, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), description)
}

// Keys identify one or two devices, in the solver's order.
type Keys []string

// KeysOf returns the keys of devices with these names.
func KeysOf(names []string, devices []hetero.Device) (k Keys) {
	for i, d := range devices {
		caps := d.Capabilities()
		if caps.Driver != "" {
			caps.Name += ", driver " + caps.Driver
		}
		k = append(k, Key(names[i], caps.Name))
	}
	return k
}

const pairSeparator = " + " // joins the keys of a pair

// pair returns the key of a pair.
func (k Keys) pair() string { return strings.Join(k, pairSeparator) }

// inPair reports whether a pair contains a device.
func inPair(pair, key string) bool {
	return strings.HasPrefix(pair, key+pairSeparator) || strings.HasSuffix(pair, pairSeparator+key)
}

// Load reads the stored measurements. If the file is unreadable or has another version,
// Load returns an empty File, and report states why the devices are measured again.
func Load(dir string) (f *File, report string) {
	empty := &File{Version: version, Devices: map[string]solve.Record{}, Pairs: map[string]Pair{}}
	if dir == "" {
		return empty, ""
	}
	name := vfs.Join(dir, Name)
	data, err := vfs.ReadFile(vfs.OS(), name, maxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return empty, ""
	}
	f = &File{}
	if err == nil {
		err = json.Unmarshal(data, f)
	}
	if err == nil {
		err = f.validate()
	}
	switch {
	case err != nil:
		return empty, fmt.Sprintf("%s: unusable, replaced with new measurements: %v", name, err)
	case f.Version != version:
		return empty, fmt.Sprintf("%s: version %d, want %d: devices are measured again", name, f.Version, version)
	}
	if f.Devices == nil {
		f.Devices = empty.Devices
	}
	if f.Pairs == nil {
		f.Pairs = empty.Pairs
	}
	return f, ""
}

// validate returns an error if a check holds an impossible time. Profiler.Restore
// validates the records of devices.
func (f *File) validate() error {
	for pair, both := range f.Pairs {
		for _, c := range both.Checks {
			for _, took := range append(slices.Clone(c.Alone), c.Split) {
				if !solve.Credible(took) {
					return fmt.Errorf("%w: %v for a split of %s", solve.ErrRecord, took, pair)
				}
			}
		}
	}
	return nil
}

// Restore loads the stored measurements of the devices into a profiler. report states
// which measurements are unusable, "" if none is. The slowdown of a pair does not
// depend on the order of its devices.
func (f *File) Restore(p *solve.Profiler, k Keys) (report string) {
	for d, key := range k {
		if err := p.Restore(d, f.Devices[key]); err != nil {
			return fmt.Sprintf("stored measurements of %s are unusable and made again: %v", key, err)
		}
	}
	if len(k) < 2 {
		return ""
	}
	for _, pair := range []string{Keys{k[1], k[0]}.pair(), k.pair()} {
		if err := p.RestoreSlowdowns(f.Pairs[pair].Slowdowns); err != nil {
			return fmt.Sprintf("stored measurements of %s are unusable and made again: %v", pair, err)
		}
	}
	return ""
}

// Update replaces stored measurements by the profiler's measurements of the same
// matmuls. Measurements of other matmuls, such as those of other models, remain.
func (f *File) Update(p *solve.Profiler, k Keys) {
	for d, key := range k {
		r := p.Record(d)
		r.Merge(f.Devices[key])
		f.Devices[key] = r
	}
	if len(k) == 2 {
		both := f.Pairs[k.pair()]
		both.Slowdowns = solve.MergeSlowdowns(p.Slowdowns(), both.Slowdowns)
		f.Pairs[k.pair()] = both
	}
}

// Check returns the stored check of a split, nil for none.
func (f *File) Check(k Keys, shape solve.Shape, s *solve.Split) *Check {
	list := f.Pairs[k.pair()].Checks
	for i := range list {
		if list[i].Shape == shape && list[i].matches(s) {
			return &list[i]
		}
	}
	return nil
}

// AddCheck stores a check and replaces one of the same split.
func (f *File) AddCheck(k Keys, c Check) *Check {
	both := f.Pairs[k.pair()]
	s := solve.Split{Pieces: c.Pieces}
	both.Checks = slices.DeleteFunc(both.Checks, func(old Check) bool { return old.Shape == c.Shape && old.matches(&s) })
	both.Checks = append(both.Checks, c)
	f.Pairs[k.pair()] = both
	return &both.Checks[len(both.Checks)-1]
}

// matches reports whether the check belongs to a split.
func (c *Check) matches(s *solve.Split) bool {
	return len(c.Alone) == 2 && slices.Equal(c.Pieces, s.Pieces)
}

// SaveOrReport saves the file. It passes a failure to report, which may be nil: without
// the file, the next run only measures again.
func (f *File) SaveOrReport(dir string, report func(text string)) {
	if err := f.Save(dir); err != nil && report != nil {
		report("measurements of devices are not saved: " + err.Error())
	}
}

// Save writes the file. Without a directory or without permission it does nothing.
func (f *File) Save(dir string) error {
	if dir == "" {
		return nil
	}
	data, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return err
	}
	if err = vfs.OS().MkdirAll(dir); err == nil {
		err = vfs.WriteFile(vfs.OS(), vfs.Join(dir, Name), append(data, '\n'))
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}
