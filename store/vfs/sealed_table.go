package vfs

import (
	"errors"
	"io"
	"sync"
)

// sealTablesMost limits the memory of the tables of all open files of a Sealed file system: those
// of 340 MiB of content. Entries beyond it are read from the disk with each block, which costs a
// system call for each part that a thread decrypts.
const sealTablesMost = 2 << 20

// tableRoom counts the memory of tables.
type tableRoom struct {
	mu   sync.Mutex
	used int64
}

// take reserves n bytes, or returns false.
func (r *tableRoom) take(n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used+n > sealTablesMost {
		return false
	}
	r.used += n
	return true
}

func (r *tableRoom) release(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= n
}

// tableChunk is the number of entries that are cached together: those of 1 MiB of content.
const tableChunk = 256

// cachedTable holds chunks of the table of a file in memory.
type cachedTable struct {
	room *tableRoom
	once sync.Once // loads the table of a file that was opened for reading

	mu     sync.RWMutex
	chunks [][]byte // nil: not written yet; empty: written when there was no room
}

// read copies entries from a block on, or returns false.
func (c *cachedTable) read(to []byte, first int64) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for len(to) > 0 {
		number, within := first/tableChunk, first%tableChunk
		if number >= int64(len(c.chunks)) || len(c.chunks[number]) == 0 {
			return false
		}
		n := copy(to, c.chunks[number][within*sealEntry:])
		to, first = to[n:], first+int64(n/sealEntry)
	}
	return true
}

// write sets entries from a block on, as far as there is room.
func (c *cachedTable) write(entries []byte, first int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(entries) > 0 {
		number, within := first/tableChunk, first%tableChunk
		for number >= int64(len(c.chunks)) {
			c.chunks = append(c.chunks, nil)
		}
		if c.chunks[number] == nil {
			c.chunks[number] = []byte{}
			if c.room.take(tableChunk * sealEntry) {
				c.chunks[number] = make([]byte, tableChunk*sealEntry)
			}
		}
		n := min(len(entries), int(tableChunk-within)*sealEntry)
		if chunk := c.chunks[number]; len(chunk) > 0 {
			copy(chunk[within*sealEntry:], entries[:n])
		}
		entries, first = entries[n:], first+int64(n/sealEntry)
	}
}

// free returns the memory.
func (c *cachedTable) free() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, chunk := range c.chunks {
		c.room.release(int64(len(chunk)))
	}
	c.chunks = nil
}

// loadTable reads the table of a file that was opened for reading, as far as there is room. A
// failure is reported when the entries are read from the disk with their blocks.
func (f *sealedFile) loadTable() {
	chunk := make([]byte, tableChunk*sealEntry)
	for first := int64(0); first < f.blocks(); first += tableChunk {
		part := chunk[:min(tableChunk, f.blocks()-first)*sealEntry]
		if n, _ := f.tags.ReadAt(part, f.tagsAt+first*sealEntry); n < len(part) {
			return
		}
		f.cached.write(part, first)
	}
}

// readEntries reads the entries of the table for n blocks.
func (f *sealedFile) readEntries(b *sealBuffer, first, n int64) error {
	entries := b.entries[:n*sealEntry]
	if f.tags == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		clear(entries)
		copy(entries, f.table[min(first*sealEntry, int64(len(f.table))):])
		return nil
	}
	if f.cached.read(entries, first) {
		return nil
	}
	got, err := f.tags.ReadAt(entries, f.tagsAt+first*sealEntry)
	if got < len(entries) {
		if err == nil || errors.Is(err, io.EOF) {
			err = sealError(f.file, f.place(first+int64(got)/sealEntry), "its tag is missing")
		}
		return err
	}
	return nil
}
