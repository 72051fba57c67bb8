//go:build !linux

package tiering

// adviseHuge does nothing: the system has no such advice, or uses large pages by
// default like macOS on arm64.
func adviseHuge([]byte) {}

// adviseSmall does nothing.
func adviseSmall([]byte) {}

func collapse([]byte) {}

// mapHuge is mapPages on this system.
func mapHuge(size int) (mapping, pages []byte, err error) {
	pages, err = mapPages(size)
	return pages, pages, err
}
