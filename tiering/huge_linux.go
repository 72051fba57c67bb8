package tiering

import "golang.org/x/sys/unix"

// adviseHuge asks for 2 MiB pages: a decode step walks all weights once, and
// with 4 KiB pages it spends a noticeable part of its time on TLB misses. The
// kernel only ever uses a huge page inside the mapping, so the lease covers it.
// Kernels without transparent huge pages refuse, which costs speed alone.
func adviseHuge(pages []byte) { _ = unix.Madvise(pages, unix.MADV_HUGEPAGE) }

// collapse makes the huge pages that lie in a range of populated memory, now
// rather than when the kernel gets round to it. Linux 6.1 learned to.
func collapse(pages []byte) { _ = unix.Madvise(pages, unix.MADV_COLLAPSE) }

// mapHuge returns size bytes that begin where a huge page may, and the mapping they
// are in. What of that is before and behind them is only addresses.
func mapHuge(size int) (mapping, pages []byte, err error) {
	if mapping, err = mapPages(size + hugePage); err != nil {
		return nil, nil, err
	}
	begin := int(-address(mapping) % hugePage)
	return mapping, mapping[begin : begin+size : begin+size], nil
}
