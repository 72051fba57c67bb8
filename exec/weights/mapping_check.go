package weights

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// A mapped file can change while its weights are in use: a program overwrites it, or the disk
// returns other bytes for a page that the system had evicted. Three checks find that:
//
//   - Before a pass passes logits on or stores its tokens, CheckMapped compares the stamp of
//     the file. If it differs, all blocks are verified again.
//   - Before a layer is used, CheckEvicted reads and verifies the blocks that have left memory,
//     and after it those that may have left memory meanwhile; see mapping_evicted.go.
//   - Before each pass, ScanMapped verifies some blocks: all of them in scanPeriod.
//
// Weights that were promoted from a mapping are verified once if the stamp differs then.

// scanPeriod is the time in which a scan verifies all mapped bytes while passes run.
const scanPeriod = time.Minute

// scanShare is the maximum part of the mapped bytes that one call of ScanMapped verifies:
// one in scanShare.
const scanShare = 16

// mappingCheck is the state of the checks of mapped sections.
type mappingCheck struct {
	stamp    vfs.Stamp // of the file at the last verification
	stamped  bool      // the file has stamps
	verified time.Time // when that verification began
	// unsettled: a change just after the verification may have left the same stamp.
	unsettled bool

	// The scan continues at offset at of a section. urgent is the number of bytes to verify as
	// fast as scanShare permits, and due the number that scanPeriod demands.
	section, at int
	urgent, due int
	scanned     time.Time // time of the last scan

	evictions evictions
}

// begin notes the stamp of a file before its blocks are verified.
func (c *mappingCheck) begin(stamp vfs.Stamp, ok bool) {
	c.stamp, c.stamped, c.verified = stamp, ok, time.Now()
	c.unsettled = ok && !stamp.Settled(c.verified)
}

// noteStamp notes the stamp of the file before its first section is verified.
func (r *Residency) noteStamp() error {
	if !r.check.verified.IsZero() {
		return nil
	}
	stamp, ok, err := r.File.Stamp()
	r.check.begin(stamp, ok)
	return err
}

// CheckMapped verifies the mapped sections if the file may have changed since they were last
// verified. It returns the error of the first damaged block, and nil if all blocks hold what
// they held.
func (r *Residency) CheckMapped(ctx context.Context) error {
	if r == nil || !r.Mapped {
		return nil
	}
	if err := r.checkFaulted(); err != nil || !r.check.stamped {
		return err
	}
	stamp, ok, err := r.File.Stamp()
	switch {
	case err != nil:
		return err
	case ok && stamp == r.check.stamp:
		return nil
	}
	for i := range r.Sections {
		if l := &r.Sections[i]; l.Mapped {
			if err := r.verifyMapping(ctx, l, 0); err != nil {
				return err
			}
		}
	}
	r.check.begin(stamp, ok)
	return nil
}

// ScanMapped verifies the next mapped blocks: as many as scanPeriod demands for the time since
// the last call. It returns the error of an earlier promotion whose bytes are damaged.
func (r *Residency) ScanMapped() error {
	switch {
	case r == nil:
		return nil
	case !r.Mapped || r.damaged != nil:
		return r.damaged
	}
	return r.scanAt(time.Now())
}

// scanAt is ScanMapped at a time.
func (r *Residency) scanAt(now time.Time) error {
	c, all := &r.check, r.mappedBytes()
	if c.unsettled && c.stamp.Settled(now) {
		c.unsettled, c.urgent = false, all // later changes get another stamp, earlier ones are found by this scan
	}
	elapsed := min(now.Sub(c.scanned), scanPeriod)
	c.due += int(float64(all) * float64(elapsed) / float64(scanPeriod))
	c.scanned = now
	c.evictions.restart(elapsed)
	due := min(max(c.due, c.urgent), max(all/scanShare, pack.BlockBytes))
	if due < min(all, pack.BlockBytes) {
		return nil
	}
	c.due = 0
	return r.scan(due)
}

// mappedBytes returns the bytes in use of all mapped sections.
func (r *Residency) mappedBytes() (n int) {
	for i := range r.Sections {
		if r.Sections[i].Mapped {
			n += r.Sections[i].Size
		}
	}
	return n
}

// scan verifies about n bytes from the scan's position on, in whole blocks.
func (r *Residency) scan(n int) error {
	c := &r.check
	for empty := 0; n > 0 && empty <= len(r.Sections); {
		l := &r.Sections[c.section%len(r.Sections)]
		if !l.Mapped || c.at >= l.Size {
			c.section, c.at = (c.section+1)%len(r.Sections), 0
			empty++
			continue
		}
		to := min(c.at+(n+pack.BlockBytes-1)/pack.BlockBytes*pack.BlockBytes, l.Size)
		if err := r.verifyRange(l, c.at, to); err != nil {
			return err
		}
		n, c.urgent, empty = n-(to-c.at), max(0, c.urgent-(to-c.at)), 0
		c.at = to
	}
	return nil
}

// verifyPiece is how many bytes of a mapping one goroutine verifies at a time.
const verifyPiece = 16 * pack.BlockBytes

// mappingReads describes the reads of a mapped file: who admits them, and who counts their bytes.
type mappingReads struct {
	file      *pack.File
	scheduler *prefetch.Scheduler
	arrived   func(n int)
}

// verifyMapping is [Layout.verifyMapping] from an offset of a section on.
func (r *Residency) verifyMapping(ctx context.Context, l *Layout, from int) error {
	return l.verifyMapping(ctx, mappingReads{r.File, r.Threads.Scheduler, func(int) {}}, from, l.Size)
}

// verifyMapping reads a range of a mapped section, which brings it into memory, and
// verifies its block checksums.
func (l *Layout) verifyMapping(ctx context.Context, m mappingReads, from, to int) error {
	var wg sync.WaitGroup
	errs := make([]error, loadReaders)
	for i := range errs {
		wg.Go(func() {
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
			defer func() {
				if addr, faulted := vfs.FaultAddress(recover()); faulted {
					errs[i] = m.file.TruncatedSection(l.index, l.offsetOf(addr))
				}
			}()
			first := from/verifyPiece*verifyPiece + i*verifyPiece
			for at := first; at < to && errs[i] == nil; at += loadReaders * verifyPiece {
				if errs[i] = ctx.Err(); errs[i] == nil {
					lo, hi := max(at, from), min(at+verifyPiece, to)
					grant, _ := m.scheduler.Admit(prefetch.Awaited, hi-lo)
					errs[i] = m.file.CheckSection(l.index, l.mapping.Bytes(), int64(lo), int64(hi))
					m.scheduler.Done(grant)
					m.arrived(hi - lo)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// offsetOf returns the offset of an address in the section's mapping, 0 if it is outside.
func (l *Layout) offsetOf(addr uintptr) int64 {
	if n := addr - tiering.Address(l.mapping.Bytes()); n < uintptr(len(l.mapping.Bytes())) {
		return int64(n)
	}
	return 0
}

// FaultOf returns the error for a recovered page fault in a mapping, whose file has become
// shorter. It returns nil if there was no panic, and panics again for any other reason.
func (r *Residency) FaultOf(reason any) error {
	addr, faulted := vfs.FaultAddress(reason)
	if !faulted {
		return nil
	}
	for i := range r.Sections {
		l := &r.Sections[i]
		if l.mapping == nil {
			continue
		}
		if n := l.offsetOf(addr); n > 0 || addr == tiering.Address(l.mapping.Bytes()) {
			return r.File.TruncatedSection(l.index, n)
		}
	}
	return fmt.Errorf("%s: %w: the file has become shorter while it was in use", r.File.Path(), store.ErrTruncated)
}
