package exec

import (
	"github.com/llmrun/llmrun/internal/trace"
	"github.com/llmrun/llmrun/store/w8a8"
	"github.com/llmrun/llmrun/tiering"
)

// shadow is what of a model's products in integers lies beyond the scales of their
// inputs: float columns of the matrices, in memory or on flash.
type shadow struct {
	m        *Model
	file     *w8a8.File
	recorder *trace.Recorder // nil: nobody traces
	frames   []*tiering.Frame
	stats    ShadowStats
}

// ShadowStats is what shadows were made of.
type ShadowStats struct {
	Tokens   int64 `json:"tokens"`         // rows of inputs that could have one
	Marked   int64 `json:"marked"`         // those that had outliers
	Outliers int64 `json:"outliers"`       // elements
	Hot      int64 `json:"hot"`            // columns that were in memory
	Fetched  int64 `json:"fetched"`        // columns that came from flash
	Read     int64 `json:"read_bytes"`     // of those
	Resident int64 `json:"resident_bytes"` // of columns that stay in memory
	All      int64 `json:"all_bytes"`      // of columns of all matrices that have a shadow, as they would be in memory
}

// columns are those of one matrix as floats.
type columns struct {
	matrix *w8a8.Matrix
	slots  []int32   // [cols] where a hot channel's column is, or -1
	hot    []float32 // [hot channels, rows]
}

// carve takes a matrix's hot columns and their slots from an arena.
func (c *columns) carve(a *tiering.Arena, in *w8a8.Input) {
	c.hot, c.slots = a.Floats(in.Hot*c.matrix.Rows), a.Int32s(in.Cols)
}

// pageSlack is what a frame may take more than was asked for: a page of most systems.
const pageSlack = 4096

// residentBytes returns what the hot columns of all matrices with a shadow take.
func (o *W8A8) residentBytes() (n int64) {
	for in, kept := range o.Shadows.Of(o.Calibration.Inputs) {
		for i := range in.Matrices {
			if kept {
				var probe tiering.Arena
				(&columns{matrix: &in.Matrices[i]}).carve(&probe, in)
				n += int64(probe.Need()) + pageSlack
			}
		}
	}
	return n
}

// addColumns brings the hot columns of a matrix into memory.
func (s *shadow) addColumns(in *w8a8.Input, m *w8a8.Matrix) (*columns, error) {
	c := &columns{matrix: m}
	var probe tiering.Arena
	c.carve(&probe, in)
	frame, err := tiering.Alloc(s.m.budget, tiering.Pinned, probe.Need())
	if err != nil {
		return nil, err
	}
	s.frames = append(s.frames, frame)
	arena := tiering.NewArena(frame)
	c.carve(arena, in)
	if err := arena.Err(); err != nil {
		return nil, err
	}
	for i := range c.slots {
		c.slots[i] = -1
	}
	raw := make([]byte, m.ColumnBytes())
	for i, channel := range in.Channels[:in.Hot] {
		c.slots[channel.Channel] = int32(i)
		if err := s.file.Column(m, channel.Channel, c.hot[i*m.Rows:], raw); err != nil {
			return nil, err
		}
	}
	s.stats.Resident += int64(4 * in.Hot * m.Rows)
	s.stats.All += int64(4 * in.Cols * m.Rows)
	return c, nil
}

// ShadowStats returns what shadows were made of so far.
func (m *Model) ShadowStats() ShadowStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.shadow == nil {
		return ShadowStats{}
	}
	return m.shadow.stats
}

// close gives the memory back; the calibration stays open.
func (s *shadow) close() {
	for _, f := range s.frames {
		f.Free()
	}
	s.frames = nil
}
