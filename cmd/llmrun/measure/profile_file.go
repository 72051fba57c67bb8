package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"time"

	"github.com/llmrun/llmrun/hetero/solve"
	"github.com/llmrun/llmrun/store/vfs"
)

const (
	profileFile    = "devices.json" // in the cache directory
	profileVersion = 1
	maxProfile     = 16 << 20 // bytes of it
)

// deviceProfile is what was measured of the devices of a machine.
type deviceProfile struct {
	Version int                     `json:"version"`
	Devices map[string]solve.Record `json:"devices"` // by what makes times differ, see deviceKey
	Pairs   map[string]pairProfile  `json:"pairs"`   // by both keys
}

// pairProfile is what was measured of two devices together.
type pairProfile struct {
	Slowdowns []solve.Slowdown `json:"slowdowns"`
	Checks    []splitCheck     `json:"checks"`
}

// splitCheck is a product that was run as it was split, beside each device alone.
type splitCheck struct {
	solve.Shape
	Pieces []solve.Piece   `json:"pieces"`
	Split  time.Duration   `json:"split_ns"`
	Alone  []time.Duration `json:"alone_ns"`
}

// deviceKey names a device with all that its times depend on.
func deviceKey(name, description string) string {
	return fmt.Sprintf("%s on %s/%s, %d processors: %s", name, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), description)
}

// keys are those of the lab's devices, and of both together.
func (l *lab) keys() (each []string, pair string) {
	for i, d := range l.devices {
		key := deviceKey(l.names[i], d.Capabilities().Name)
		each = append(each, key)
		pair += " + " + key
	}
	return each, pair[len(" + "):]
}

// loadProfile reads what was measured before. A file that cannot be read, or that
// another version wrote, is no loss: notice says why all is measured again.
func loadProfile(dir string) (p *deviceProfile, notice string) {
	empty := &deviceProfile{Version: profileVersion, Devices: map[string]solve.Record{}, Pairs: map[string]pairProfile{}}
	if dir == "" {
		return empty, ""
	}
	name := vfs.Join(dir, profileFile)
	data, err := vfs.ReadFile(vfs.OS(), name, maxProfile)
	if errors.Is(err, fs.ErrNotExist) {
		return empty, ""
	}
	p = &deviceProfile{}
	if err == nil {
		err = json.Unmarshal(data, p)
	}
	switch {
	case err != nil:
		return empty, fmt.Sprintf("%s cannot be used and is written anew: %v", name, err)
	case p.Version != profileVersion:
		return empty, fmt.Sprintf("%s has version %d and not %d: the devices are measured again", name, p.Version, profileVersion)
	}
	if p.Devices == nil {
		p.Devices = empty.Devices
	}
	if p.Pairs == nil {
		p.Pairs = empty.Pairs
	}
	return p, ""
}

// teach gives the lab's profiler what is known of its devices.
func (p *deviceProfile) teach(l *lab) (notice string) {
	each, pair := l.keys()
	for d, key := range each {
		if err := l.profiler.Learn(d, p.Devices[key]); err != nil {
			return fmt.Sprintf("what is known of %s is measured again: %v", l.names[d], err)
		}
	}
	if len(each) == 2 {
		if err := l.profiler.LearnSlowdowns(p.Pairs[pair].Slowdowns); err != nil {
			return fmt.Sprintf("what is known of %s is measured again: %v", pair, err)
		}
	}
	return ""
}

// note takes what the lab has measured in place of what was known of the same
// products. What is known of others, of other models, stays.
func (p *deviceProfile) note(l *lab) {
	each, pair := l.keys()
	for d, key := range each {
		r := l.profiler.Record(d)
		r.Merge(p.Devices[key])
		p.Devices[key] = r
	}
	if len(each) == 2 {
		both := p.Pairs[pair]
		both.Slowdowns = solve.MergeSlowdowns(l.profiler.Slowdowns(), both.Slowdowns)
		p.Pairs[pair] = both
	}
}

// check returns what is known of a split of a pair.
func (p *deviceProfile) check(pair string, shape solve.Shape, s *solve.Split) *splitCheck {
	list := p.Pairs[pair].Checks
	for i := range list {
		if list[i].Shape == shape && list[i].of(s) {
			return &list[i]
		}
	}
	return nil
}

// addCheck keeps a check in place of one of the same split.
func (p *deviceProfile) addCheck(pair string, c splitCheck) *splitCheck {
	both := p.Pairs[pair]
	s := solve.Split{Pieces: c.Pieces}
	both.Checks = slices.DeleteFunc(both.Checks, func(old splitCheck) bool { return old.Shape == c.Shape && old.of(&s) })
	both.Checks = append(both.Checks, c)
	p.Pairs[pair] = both
	return &both.Checks[len(both.Checks)-1]
}

// of reports whether a check is of a split.
func (c *splitCheck) of(s *solve.Split) bool {
	return len(c.Alone) == 2 && slices.Equal(c.Pieces, s.Pieces)
}

// save writes the file, unless nothing may be written there.
func (p *deviceProfile) save(dir string) error {
	if dir == "" {
		return nil
	}
	data, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		return err
	}
	if err = vfs.OS().MkdirAll(dir); err == nil {
		err = vfs.WriteFile(vfs.OS(), vfs.Join(dir, profileFile), append(data, '\n'))
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}
