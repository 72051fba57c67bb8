package llmrun

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/allowance"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// dailyWrites returns the allowance of the directory of keys and values, nil if there is no
// directory or no limit. Its file is not encrypted, so that all keys share it.
func (o *Options) dailyWrites() *allowance.Allowance {
	limit := cmp.Or(o.Cache.DailyWrites, DefaultDailyWrites)
	if o.sessionDir() == "" || limit == NoLimit {
		return nil
	}
	return allowance.New(o.cacheFS(), o.sessionDir(), max(0, limit))
}

// newScratch returns the file for keys and values that exceed the memory limit.
func (e *Engine) newScratch(dir string, opts *Options) *kv.Scratch {
	s := kv.NewScratch(opts.kvFS(), dir, e.mem.budget)
	if e.writes != nil {
		s.LimitWrites(func(n int64) error { return e.takeWrites(n, 0) })
	}
	at := Options{Cache: opts.Cache, Notify: opts.Notify, Lab: LabOptions{Disk: opts.Lab.Disk}, kvKey: opts.kvKey, mapped: opts.mapped}
	e.flashRoom = func() flashRoom {
		room := at.flashRoom(e.writes)
		room.report(&at)
		return room
	}
	return s
}

// takeWrites counts bytes of keys and values that will be written, if leave more remain for spills.
func (e *Engine) takeWrites(n, leave int64) error {
	err := e.writes.TakeLeaving(n, leave)
	var spent *allowance.SpentError
	switch {
	case errors.As(err, &spent):
		return fmt.Errorf("%w: %s were written below %s on %s (UTC), and %s more would exceed the limit of %s; allow more writes a day (--cache-writes)",
			ErrWritesSpent, tiering.SizeText(spent.Used), spent.Dir, spent.Day, tiering.SizeText(spent.More), tiering.SizeText(spent.Limit))
	case vfs.IsDiskFull(err):
		return fmt.Errorf("counting the bytes that are written: %w; free some space, or choose a directory on another disk (--cache-dir)", err)
	case err != nil:
		return fmt.Errorf("counting the bytes that are written: %w", err)
	}
	return nil
}

// closeWrites returns what was counted and not written.
func (e *Engine) closeWrites() error {
	if e.writes == nil {
		return nil
	}
	return e.writes.Close()
}

// CacheWrites are the bytes of keys and values that were written to the cache today.
type CacheWrites struct {
	Today int64 `json:"today_bytes"` // by all processes that use the directory
	Limit int64 `json:"limit_bytes"` // see [CacheOptions].DailyWrites
}

// CacheWrites returns the writes of the day, nil without a directory or without a limit.
func (e *Engine) CacheWrites() *CacheWrites {
	if e.writes == nil {
		return nil
	}
	used, err := e.writes.Used()
	if err != nil {
		return nil // a damaged count is the error of the next write
	}
	return &CacheWrites{Today: used, Limit: e.writes.Limit()}
}
