//go:build !linux

package tiering

// adviseHuge does nothing here: the system offers no advice for huge pages (or,
// like macOS on arm64, uses large pages of its own accord).
func adviseHuge([]byte) {}

func collapse([]byte) {}

// mapHuge is mapPages here.
func mapHuge(size int) (mapping, pages []byte, err error) {
	pages, err = mapPages(size)
	return pages, pages, err
}
