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
	// flashTime is how long flash is measured before and after a configuration.
	flashTime = 300 * time.Millisecond
	// steadyTries is how often a configuration is run at most, until flash has been
	// equally fast before, during and after it: within steadyFlash.
	steadyTries = 3
	steadyFlash = 1.15
)

// flash measures how fast a pack is read in pieces of a plan's size.
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
	return rates.Flash(file, size, int(min(cmp.Or(piece, tiering.DefaultPiece), size)), flashTime)
}

// drift returns by which factor flash changed between the plan, the beginning and
// the end of the configuration; 1 if nothing was read.
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
