package profiles

import (
	"bytes"
	"encoding/json"
)

// maxNeeds bounds the number of needs that are stored.
const maxNeeds = 64

// Need decodes the stored need with a key into a value, and reports whether there is one.
func (f *File) Need(key string, value any) bool {
	stored, known := f.Needs[key]
	return known && json.Unmarshal(stored, value) == nil
}

// SetNeed stores a need under a key, and reports whether it differs from the stored one. It drops the
// others if they are too many; their owners store them again.
func (f *File) SetNeed(key string, need any) (changed bool) {
	fresh, err := json.Marshal(need)
	if err != nil {
		return false // it has no form in JSON
	}
	var stored bytes.Buffer
	if json.Compact(&stored, f.Needs[key]) == nil && bytes.Equal(stored.Bytes(), fresh) {
		return false
	}
	if f.Needs == nil || len(f.Needs) >= maxNeeds {
		f.Needs = map[string]json.RawMessage{}
	}
	f.Needs[key] = fresh
	return true
}

// Settle returns how much memory to reserve for something that took measured bytes: margin more,
// rounded up to step. Measurements differ by a little from process to process. So Settle stores the
// result under a key, and returns it again while it covers the measurement with half of the margin
// and is not much too large; changed reports that it stored another one.
func (f *File) Settle(key string, measured, margin, step int64) (bytes int64, changed bool) {
	fresh := (measured + margin + step - 1) / step * step
	if stored, known := f.Memory[key]; known && stored >= measured+margin/2 && stored <= fresh+step {
		return stored, false
	}
	return f.store(key, fresh), true
}

// Cover is Settle for something small that a process may measure too low, in memory that it had taken
// before: the stored result never falls, and covers every measurement.
func (f *File) Cover(key string, measured, margin, step int64) (bytes int64, changed bool) {
	if stored, known := f.Memory[key]; known && stored >= measured {
		return stored, false
	}
	return f.store(key, (measured+margin+step-1)/step*step), true
}

func (f *File) store(key string, bytes int64) int64 {
	if f.Memory == nil {
		f.Memory = map[string]int64{}
	}
	f.Memory[key] = bytes
	return bytes
}
