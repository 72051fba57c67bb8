package tiering

import (
	"fmt"
	"math"
	"unsafe"
)

// arenaAlign is the alignment of every slice of an arena: a cache line, which is also
// the width of the widest vector register (AVX-512).
const arenaAlign = 64

// Arena divides a frame into consecutive slices, aligned to 64 bytes. Single slices
// cannot be released: Reset releases all of them. Slices that are not used at the
// same time can overlap, see Overlay. An arena belongs to one goroutine.
//
// The zero Arena has no memory and only measures. A function that takes the buffers
// of a forward pass runs twice, so that no separate list of sizes is necessary:
//
//	var probe tiering.Arena
//	carve(&probe)
//	frame, err := tiering.Alloc(budget, tiering.Scratch, probe.Need())
//	…
//	arena := tiering.NewArena(frame)
//	carve(arena)
//	err = arena.Err()
type Arena struct {
	memory []byte // nil: measure only
	need   int    // bytes requested so far, including failed requests
	err    error  // the first request that did not fit
}

// NewArena returns an arena over a frame. The caller still owns the frame.
func NewArena(f *Frame) *Arena {
	if f.bytes == nil {
		return &Arena{memory: []byte{}}
	}
	return &Arena{memory: f.bytes}
}

// Floats takes n float32. They are zero in a fresh frame and undefined after Reset.
func (a *Arena) Floats(n int) []float32 { return take[float32](a, n) }

// Int8s takes n int8.
func (a *Arena) Int8s(n int) []int8 { return take[int8](a, n) }

// Int32s takes n int32.
func (a *Arena) Int32s(n int) []int32 { return take[int32](a, n) }

// Bytes takes n bytes.
func (a *Arena) Bytes(n int) []byte { return take[byte](a, n) }

// Overlay calls functions whose slices all begin at the same position: slices of
// different functions must not be used at the same time. Together they take as much
// as the largest function.
func (a *Arena) Overlay(takes ...func()) {
	from, end := a.need, a.need
	for _, take := range takes {
		a.need = from
		take()
		end = max(end, a.need)
	}
	a.need = end
}

// Err returns the first request that did not fit, or nil. Failed requests return nil
// slices, so callers check Err after the last request and before they use a slice.
func (a *Arena) Err() error { return a.err }

// Need returns the frame size for all requests since the creation of the arena or the
// last Reset.
func (a *Arena) Need() int { return a.need }

// Reset releases all slices.
func (a *Arena) Reset() {
	poison(a.memory[:min(a.need, len(a.memory))])
	a.need, a.err = 0, nil
}

// take advances the arena by n elements of T, rounded up to the alignment.
func take[T Element](a *Arena, n int) []T {
	var t T
	size := int(unsafe.Sizeof(t))
	if n < 0 || n > (math.MaxInt-a.need-arenaAlign)/size {
		a.fail(fmt.Errorf("tiering: an arena cannot hold %d elements of %d bytes", n, size))
		return nil
	}
	start, bytes := a.need, n*size
	a.need += (bytes + arenaAlign - 1) / arenaAlign * arenaAlign
	if a.memory == nil {
		return nil
	}
	if a.need > len(a.memory) {
		a.fail(fmt.Errorf("tiering: an arena of %d bytes is too small: %d are needed", len(a.memory), a.need))
		return nil
	}
	return unsafeView[T](a.memory[start:], n)[:n:n]
}

func (a *Arena) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}
