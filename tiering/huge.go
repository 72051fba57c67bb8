package tiering

import (
	"slices"
	"unsafe"
)

// JoinPages requests huge pages across the boundaries of adjacent frames. The system
// places mappings next to each other but not at multiples of a huge page. Without
// JoinPages, up to 2 MiB at every boundary, which hold weights, are in small pages.
//
// The caller fills the frames first, because the request allocates all memory that was
// not written before. JoinPages skips adopted frames and frames with room to grow.
func JoinPages(frames []*Frame) {
	for _, run := range adjacent(frames) {
		inner := insideHuge(run)
		if len(inner) == 0 {
			continue
		}
		adviseHuge(run) // the kernel merges mappings with equal attributes
		collapse(inner)
	}
}

// adjacent returns the ranges of memory that full frames cover without gaps.
func adjacent(frames []*Frame) [][]byte {
	full := make([][]byte, 0, len(frames))
	for _, f := range frames {
		if len(f.pages) > 0 && f.release == nil && int(f.lease.Bytes()) == len(f.pages) {
			full = append(full, f.pages)
		}
	}
	slices.SortFunc(full, func(a, b []byte) int {
		if address(a) < address(b) {
			return -1
		}
		return 1
	})
	runs := full[:0]
	for _, pages := range full {
		last := len(runs) - 1
		if last >= 0 && address(runs[last])+uintptr(len(runs[last])) == address(pages) {
			runs[last] = unsafe.Slice(unsafe.SliceData(runs[last]), len(runs[last])+len(pages))
			continue
		}
		runs = append(runs, pages)
	}
	return runs
}

// insideHuge returns the part of a range that consists of whole huge pages.
func insideHuge(run []byte) []byte {
	before := int(-address(run) % hugePage)
	if len(run) < before {
		return nil
	}
	return run[before : before+(len(run)-before)/hugePage*hugePage]
}

// Index returns the position of a slice of the frame, in float32 elements.
func (f *Frame) Index(numbers []float32) int {
	return int(uintptr(unsafe.Pointer(unsafe.SliceData(numbers)))-address(f.bytes)) / 4
}

// Address returns the address of memory for [Prefetch].
func Address(b []byte) uintptr { return address(b) }

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
