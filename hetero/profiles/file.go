// Package profiles keeps what was measured of the devices of a machine in a file,
// for the plans of later runs.
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
	// Name is that of the file in its directory.
	Name    = "devices.json"
	version = 2
	maxSize = 16 << 20
)

// File is what was measured of the devices of a machine.
type File struct {
	Version int                     `json:"version"`
	Devices map[string]solve.Record `json:"devices"` // by what makes times differ, see Key
	Pairs   map[string]Pair         `json:"pairs"`   // by both keys
}

// Pair is what was measured of two devices together.
type Pair struct {
	Slowdowns []solve.Slowdown `json:"slowdowns"`
	Checks    []Check          `json:"checks"`
	Trials    []Trial          `json:"trials,omitempty"`
	Copies    []CopyTime       `json:"copies,omitempty"`
}

// Check is a product that was run as it was split, beside each device alone.
type Check struct {
	solve.Shape
	Pieces []solve.Piece   `json:"pieces"`
	Split  time.Duration   `json:"split_ns"`
	Alone  []time.Duration `json:"alone_ns"`
}

// Key names a device with all that its times depend on.
func Key(name, description string) string {
	return fmt.Sprintf("%s on %s/%s, %d processors: %s", name, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), description)
}

// Keys are those of one or two devices, in the order that a solver has them in.
type Keys []string

// KeysOf returns the keys of devices by these names.
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

const pairSeparator = " + " // the keys of a pair

// pair names both.
func (k Keys) pair() string { return strings.Join(k, pairSeparator) }

// inPair reports whether a device is one of a pair.
func inPair(pair, key string) bool {
	return strings.HasPrefix(pair, key+pairSeparator) || strings.HasSuffix(pair, pairSeparator+key)
}

// Load reads what was measured before. A file that cannot be read, or that
// another version wrote, is no loss: notice says why all is measured again.
func Load(dir string) (f *File, notice string) {
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
		return empty, fmt.Sprintf("%s cannot be used and is written anew: %v", name, err)
	case f.Version != version:
		return empty, fmt.Sprintf("%s has version %d and not %d: the devices are measured again", name, f.Version, version)
	}
	if f.Devices == nil {
		f.Devices = empty.Devices
	}
	if f.Pairs == nil {
		f.Pairs = empty.Pairs
	}
	return f, ""
}

// validate returns an error if there is a check that no measurement gives. Records of
// devices are looked at by who learns from them.
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

// Restore gives a profiler what is known of its devices. What two of them cost each
// other does not depend on their order.
func (f *File) Restore(p *solve.Profiler, k Keys) (notice string) {
	for d, key := range k {
		if err := p.Restore(d, f.Devices[key]); err != nil {
			return fmt.Sprintf("what is known of %s is measured again: %v", key, err)
		}
	}
	if len(k) < 2 {
		return ""
	}
	for _, pair := range []string{Keys{k[1], k[0]}.pair(), k.pair()} {
		if err := p.RestoreSlowdowns(f.Pairs[pair].Slowdowns); err != nil {
			return fmt.Sprintf("what is known of %s is measured again: %v", pair, err)
		}
	}
	return ""
}

// Update takes what a profiler has measured in place of what was known of the same
// products. What is known of others, of other models, stays.
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

// Check returns what is known of a split of a pair.
func (f *File) Check(k Keys, shape solve.Shape, s *solve.Split) *Check {
	list := f.Pairs[k.pair()].Checks
	for i := range list {
		if list[i].Shape == shape && list[i].matches(s) {
			return &list[i]
		}
	}
	return nil
}

// AddCheck keeps a check in place of one of the same split.
func (f *File) AddCheck(k Keys, c Check) *Check {
	both := f.Pairs[k.pair()]
	s := solve.Split{Pieces: c.Pieces}
	both.Checks = slices.DeleteFunc(both.Checks, func(old Check) bool { return old.Shape == c.Shape && old.matches(&s) })
	both.Checks = append(both.Checks, c)
	f.Pairs[k.pair()] = both
	return &both.Checks[len(both.Checks)-1]
}

// matches reports whether a check is of a split.
func (c *Check) matches(s *solve.Split) bool {
	return len(c.Alone) == 2 && slices.Equal(c.Pieces, s.Pieces)
}

// SaveOrReport saves the file. Where that fails, what was measured is of use all the same, so
// that notice, if it is not nil, is told why it will be measured again.
func (f *File) SaveOrReport(dir string, notice func(text string)) {
	if err := f.Save(dir); err != nil && notice != nil {
		notice("what was measured of devices is not kept: " + err.Error())
	}
}

// Save writes the file, unless nothing may be written there.
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
