package pack

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/llmrun/llmrun/store"
)

// cursor decodes an index. The first error sticks: later calls return zero values. A caller
// may therefore read a whole record and check err once, but it must check err before it
// loops or allocates by a value it read.
type cursor struct {
	path    string
	version uint32
	start   int64 // offset of the index in the file
	size    int   // length of the index
	rest    []byte
	err     error

	reserve func(bytes int64) error
}

// reserved reserves memory for records that are about to be allocated.
func (c *cursor) reserved(bytes int64) bool {
	if c.err == nil {
		c.err = c.reserve(bytes)
	}
	return c.err == nil
}

// fail records a format error at the current offset.
func (c *cursor) fail(field, reason string, args ...any) {
	c.setError(field, fmt.Sprintf(reason, args...), store.ErrFormat)
}

// setError records the first error with path and offset.
func (c *cursor) setError(field, reason string, kind error) {
	if c.err == nil {
		c.err = &store.FormatError{
			Path: c.path, Off: c.start + int64(c.size-len(c.rest)), Field: field, Reason: reason,
			Hint: "import the model again", Kind: kind,
		}
	}
}

// truncated records that a field needs n bytes and the index has fewer left.
func (c *cursor) truncated(field string, n int64) {
	c.setError(field, fmt.Sprintf("needs %d bytes, the index has %d left", n, len(c.rest)), store.ErrTruncated)
}

// take returns the next n bytes, or nil.
func (c *cursor) take(field string, n int) []byte {
	if c.err != nil {
		return nil
	}
	if n > len(c.rest) {
		c.truncated(field, int64(n))
		return nil
	}
	b := c.rest[:n]
	c.rest = c.rest[n:]
	return b
}

func (c *cursor) byte(field string) byte {
	if b := c.take(field, 1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) uint32(field string) uint32 {
	if b := c.take(field, 4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) uint64(field string) uint64 {
	if b := c.take(field, 8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// int64 reads a length or offset. The limit leaves room for the sum of two.
func (c *cursor) int64(field string) int64 {
	v := c.uint64(field)
	if v > math.MaxInt64/2 {
		c.fail(field, "%d is out of range", v)
		return 0
	}
	return int64(v)
}

// count reads a number of records. It rejects a number that the rest of the index cannot
// hold. least is the minimum size of a record in bytes.
func (c *cursor) count(field string, least int) int {
	n := c.uint32(field)
	if int64(n)*int64(least) > int64(len(c.rest)) {
		c.truncated(field, int64(n)*int64(least))
		return 0
	}
	return int(n)
}

// text reads a string, which is stored as its length and its bytes.
func (c *cursor) text(field string) string {
	b := c.take(field, 2)
	if b == nil {
		return ""
	}
	return string(c.take(field, int(binary.LittleEndian.Uint16(b))))
}
