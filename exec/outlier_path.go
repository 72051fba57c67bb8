package exec

import (
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/trace"
	"github.com/llmrun/llmrun/store/w8a8"
	"github.com/llmrun/llmrun/tiering"
)

// outlierPath is the model's part of the outlier path: float columns of the matrices, in memory
// or on flash, which multiply the elements that exceed their input's scale.
type outlierPath struct {
	m        *Model
	file     *w8a8.File
	recorder *trace.Recorder // nil: no trace
	frames   []*tiering.Frame
	stats    OutlierStats
}

// OutlierStats counts the work of the outlier path.
type OutlierStats struct {
	Tokens   int64 `json:"tokens"`         // rows of inputs that have an outlier path
	Marked   int64 `json:"marked"`         // rows with outliers
	Outliers int64 `json:"outliers"`       // elements beyond their scale
	Hot      int64 `json:"hot"`            // columns read from memory
	Fetched  int64 `json:"fetched"`        // columns read from flash
	Read     int64 `json:"read_bytes"`     // bytes read from flash
	Resident int64 `json:"resident_bytes"` // bytes of the resident columns
	All      int64 `json:"all_bytes"`      // bytes of all columns of the matrices that have an outlier path
}

// pageSlack bounds the rounding of a frame's size: a page on most systems.
const pageSlack = 4096

// residentBytes returns the bytes of the hot columns of all matrices with an outlier path.
func (o *W8A8) residentBytes() (n int64) {
	for in, hasPath := range o.Outliers.Of(o.Calibration.Inputs) {
		for i := range in.Matrices {
			if hasPath {
				var probe tiering.Arena
				(&weights.OutlierColumns{Matrix: &in.Matrices[i]}).Carve(&probe, in)
				n += int64(probe.Need()) + pageSlack
			}
		}
	}
	return n
}

// addColumns allocates and reads the hot columns of a matrix.
func (s *outlierPath) addColumns(in *w8a8.Input, m *w8a8.Matrix) (*weights.OutlierColumns, error) {
	c := &weights.OutlierColumns{Matrix: m}
	var probe tiering.Arena
	c.Carve(&probe, in)
	frame, err := tiering.Alloc(s.m.budget, tiering.Pinned, probe.Need())
	if err != nil {
		return nil, err
	}
	s.frames = append(s.frames, frame)
	arena := tiering.NewArena(frame)
	c.Carve(arena, in)
	if err := arena.Err(); err != nil {
		return nil, err
	}
	s.stats.Resident += int64(4 * in.Hot * m.Rows)
	s.stats.All += int64(4 * in.Cols * m.Rows)
	return c, s.readHot(c, in)
}

// readHot reads the hot columns of a matrix.
func (s *outlierPath) readHot(c *weights.OutlierColumns, in *w8a8.Input) error {
	for i := range c.Slots {
		c.Slots[i] = -1
	}
	raw := make([]byte, c.Matrix.ColumnBytes())
	for i, channel := range in.Channels[:in.Hot] {
		c.Slots[channel.Channel] = int32(i)
		if err := s.file.Column(c.Matrix, channel.Channel, c.Hot[i*c.Matrix.Rows:], raw); err != nil {
			return err
		}
	}
	return nil
}

// OutlierStats returns the statistics of the outlier path.
func (m *Model) OutlierStats() OutlierStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.outliers == nil {
		return OutlierStats{}
	}
	return m.outliers.stats
}

// close frees the memory; the calibration stays open.
func (s *outlierPath) close() {
	for _, f := range s.frames {
		f.Free()
	}
	s.frames = nil
}
