package tiering

import (
	"slices"
	"unsafe"
)

// JoinPages asks for huge pages where frames meet. The system puts mappings side
// by side, but not at multiples of a huge page: the end of one and the beginning
// of the next are in small pages, 2 MiB at every seam, where a model's layers
// have the least of their matrices.
//
// Memory that was not written to yet would become memory here, so frames must be
// filled. Those that have room for more, and adopted ones, are left as they are.
func JoinPages(frames []*Frame) {
	for _, run := range adjacent(frames) {
		inner := insideHuge(run)
		if len(inner) == 0 {
			continue
		}
		adviseHuge(run) // mappings of one kind are one to the kernel
		collapse(inner)
	}
}

// adjacent returns the ranges of memory that full frames cover without a gap.
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

// insideHuge returns the whole huge pages of a range.
func insideHuge(run []byte) []byte {
	before := int(-address(run) % hugePage)
	if len(run) < before {
		return nil
	}
	return run[before : before+(len(run)-before)/hugePage*hugePage]
}

// Index returns where in the frame some numbers begin that lie in it, counted in
// numbers.
func (f *Frame) Index(numbers []float32) int {
	return int(uintptr(unsafe.Pointer(unsafe.SliceData(numbers)))-address(f.bytes)) / 4
}

// Address returns where memory is, for whoever prefetches it.
func Address(b []byte) uintptr { return address(b) }

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
