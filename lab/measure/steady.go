package measure

import (
	"cmp"
	"errors"
	"math"
	"time"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/hetero/rates"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

const (
	// flashTime is the duration of a flash measurement before and after a configuration.
	flashTime = 300 * time.Millisecond
	// steadyTries is the most runs of a configuration. It runs again until the speeds of flash
	// before, during and after the run differ by at most the factor steadyFlash.
	steadyTries = 3
	steadyFlash = 1.15
)

// flash measures the speed of reading a pack in reads of a plan's size.
func flash(path string, disk llmrun.DiskSpeed, piece int64) (gbs float64, err error) {
	fsys := vfs.OS()
	if disk != (llmrun.DiskSpeed{}) {
		fsys = vfs.Throttled(fsys, disk.BytesPerSecond, disk.Latency)
	}
	file, err := vfs.OpenDirect(fsys, path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	size, err := file.Size()
	if err != nil {
		return 0, err
	}
	return rates.Flash(tiering.New(0), file, size, int(min(cmp.Or(piece, tiering.DefaultPiece), size)), flashTime)
}

// drift returns the factor between the fastest and the slowest flash measurement of a
// configuration: in the plan, before and after. It is 1 if nothing was read.
func (r *BudgetRow) drift() float64 {
	if r.Streamed == 0 {
		return 1
	}
	least, most := math.Inf(1), 0.0
	for _, gbs := range []float64{r.planned, r.FlashGBs, r.FlashAfter} {
		least, most = min(least, gbs), max(most, gbs)
	}
	return most / least
}
