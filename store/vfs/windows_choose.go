package vfs

import (
	"errors"
	"math"
	"sync"
	"time"
)

// A comparison reads samples of a file, several at a time as the engine does.
const (
	samples     = 4
	sampleBytes = 64 << 10
	comparisons = 3
	// minGain is how much faster mapped reads must be: they take a processor from other work.
	minGain = 1.25
)

// MappedIsFaster reports whether repeated mapped reads of a file are faster than direct reads.
// That is so if the disk is slower than memory and the page cache holds the file, or has room for
// it: room is how many bytes more it may take. Otherwise the file is not read.
func MappedIsFaster(fsys FS, name string, room int64) bool {
	direct, err := OpenDirect(WithMappedReads(fsys, nil), name)
	if err != nil {
		return false
	}
	defer direct.Close()
	d, ok := direct.(*directFile)
	if !ok || d.direct == nil {
		return false
	}
	mapped := &mappedFile{osFile: d.File.(*osFile)}
	size, err := d.Size()
	if err != nil || size < 2*comparisons*samples*sampleBytes {
		return false
	}
	cached := Cached(mapped.osFile, 0, size)
	if !cached && size > room {
		return false
	}
	memory := AlignDirect(make([]byte, samples*sampleBytes+DirectAlign))
	fastest := [2]time.Duration{math.MaxInt64, math.MaxInt64}
	step := size / (2 * comparisons) / DirectAlign * DirectAlign
	for i := range int64(2 * comparisons) {
		way := []File{d, mapped}[i%2]
		took, err := timeSamples(way, i*step, memory)
		if i%2 == 1 && !cached && err == nil { // that was the first read of these bytes
			took, err = timeSamples(way, i*step, memory)
		}
		if err != nil {
			return false
		}
		fastest[i%2] = min(fastest[i%2], took)
	}
	return minGain*float64(fastest[1]) < float64(fastest[0])
}

// timeSamples returns the time of reading samples from off on at the same time.
func timeSamples(f File, off int64, memory []byte) (time.Duration, error) {
	var (
		readers sync.WaitGroup
		failed  [samples]error
	)
	begin := time.Now()
	for i := range samples {
		readers.Go(func() {
			_, failed[i] = f.ReadAt(memory[i*sampleBytes:][:sampleBytes], off+int64(i)*sampleBytes)
		})
	}
	readers.Wait()
	return time.Since(begin), errors.Join(failed[:]...)
}
