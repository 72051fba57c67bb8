package tiering

import "golang.org/x/sys/unix"

// adviseHuge requests huge pages of 2 MiB. A decoded token reads all weights once;
// with pages of 4 KiB, TLB misses take a noticeable part of its time. The kernel uses
// huge pages only inside the mapping, so the lease covers them. Kernels without
// transparent huge pages refuse, which only costs speed.
func adviseHuge(pages []byte) { _ = unix.Madvise(pages, unix.MADV_HUGEPAGE) }

// adviseSmall forbids huge pages. The kernel's background thread makes a huge page of a range that is advised to have some
// even if only one of its small pages has memory: it would fill discarded pages, which no lease covers, within a minute.
func adviseSmall(pages []byte) { _ = unix.Madvise(pages, unix.MADV_NOHUGEPAGE) }

// collapse creates huge pages in populated memory at once, instead of later by the
// kernel's background thread. It requires Linux 6.1.
func collapse(pages []byte) { _ = unix.Madvise(pages, unix.MADV_COLLAPSE) }

// mapHuge maps size bytes that begin at a huge page, and returns the mapping that
// contains them. The rest of the mapping is unused address space.
func mapHuge(size int) (mapping, pages []byte, err error) {
	if mapping, err = mapPages(size + hugePage); err != nil {
		return nil, nil, err
	}
	adviseSmall(mapping) // for what is around the pages, which are advised to have huge ones
	begin := int(-address(mapping) % hugePage)
	return mapping, mapping[begin : begin+size : begin+size], nil
}
