package tiering

import (
	"fmt"
	"math"
	"unsafe"
)

// arenaAlign is the alignment of every slice an arena hands out: a cache line,
// which is also the widest vector register (AVX-512).
const arenaAlign = 64

// Arena hands out consecutive, 64-byte aligned slices of one frame. There is no
// way to return a single one: Reset takes all of them back at once, and what is not
// used at the same time can lie in the same place, see Overlay. An arena belongs to
// one goroutine.
//
// The zero Arena has no memory and only measures. So the function that takes a
// forward pass's buffers runs twice, and no second list of sizes can drift away
// from the first:
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
	need   int    // bytes taken so far, those that did not fit included
	err    error  // the first request that did not fit
}

// NewArena returns an arena over the frame, which stays the caller's to free.
func NewArena(f *Frame) *Arena {
	if f.bytes == nil {
		return &Arena{memory: []byte{}}
	}
	return &Arena{memory: f.bytes}
}

// Floats takes n float32. They are zero in a fresh frame and hold whatever was
// there before after a Reset.
func (a *Arena) Floats(n int) []float32 { return take[float32](a, n) }

// Int8s takes n int8.
func (a *Arena) Int8s(n int) []int8 { return take[int8](a, n) }

// Int32s takes n int32.
func (a *Arena) Int32s(n int) []int32 { return take[int32](a, n) }

// Bytes takes n bytes.
func (a *Arena) Bytes(n int) []byte { return take[byte](a, n) }

// Overlay calls functions that take slices, all of which begin at the same place:
// those of one must not be used while those of another are. They take as much
// together as the largest of them.
func (a *Arena) Overlay(takes ...func()) {
	from, end := a.need, a.need
	for _, take := range takes {
		a.need = from
		take()
		end = max(end, a.need)
	}
	a.need = end
}

// Err returns the first request that did not fit, or nil. A request that does
// not fit returns nil, so Err is checked once, after the last of them and before
// any slice is used.
func (a *Arena) Err() error { return a.err }

// Need returns how many bytes a frame must have for all that was asked of the
// arena since its creation or the last Reset.
func (a *Arena) Need() int { return a.need }

// Reset takes every slice back: they must not be used any more.
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
