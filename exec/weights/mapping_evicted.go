package weights

import (
	"math/bits"
	"time"

	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
)

// The system may take pages of a mapping out of memory and read them again from the file when
// they are used. Their blocks are suspects until they are verified.
//
// Before a layer is used, the system is asked which of its pages have left memory. Their blocks,
// and absent ones within readAround, become suspects before the first of them is read: the system
// reads ahead, and what it has read looks as if it had never left. Then the suspects of the layer
// are read in windows, each admitted by the scheduler, and verified.
//
// Asking takes one part in probeShare of the time; where that does not suffice, the following
// passes continue. Once pages were found, the next pass asks for all of them.
//
// A page that leaves memory after its layer was asked for is read by the load instruction of a
// matmul, which nothing can admit. The count of such faults shows it: if it has risen when the
// layer ends, the layer is verified before its results leave the pass.

const (
	// probeShare limits the time in which CheckEvicted asks which pages are in memory: one part
	// in probeShare of the time of all passes. A Linux kernel reports 100 MB in 0.1 ms.
	probeShare = 100
	// probeStep is the number of bytes that it asks for, and reads, at a time.
	probeStep = 4 * pack.BlockBytes
	// maxCredit is the longest time that it saves up or overdraws.
	maxCredit = 10 * time.Millisecond
	// readAround is how far the system reads around a page that it was asked for: two windows
	// of 8 MiB, and as much again.
	readAround = 32 << 20
)

// evictions is the state of the checks of pages that have left memory.
type evictions struct {
	suspects [][]uint64 // by section, a bit for each block
	marked   int        // bits that are set in suspects

	// The probes continue at an offset of a section. cut: their time did not suffice for the
	// rest of this pass.
	section, at int
	cut         bool
	credit      time.Duration

	// found: pages have left memory during this pass. pressed: during the previous one, so that
	// this pass asks for all pages.
	found, pressed bool

	// inUse is one more than the section that the pass uses now, 0 before the first; faults is
	// the count of faults when its use began.
	inUse  int
	faults int64
}

// restart begins the probes of a pass, elapsed after the previous one.
func (e *evictions) restart(elapsed time.Duration) {
	e.credit = min(max(e.credit, -maxCredit)+elapsed/probeShare, maxCredit)
	if !e.cut || e.found {
		e.section, e.at = 0, 0
	}
	e.cut, e.pressed, e.found, e.inUse = false, e.found, false, 0
}

// CheckEvicted begins the use of a section, a layer or the ends: it reads and verifies the blocks
// that are not in memory. Pages that the system does not report are verified by ScanMapped. The
// use of the previous section has ended, see checkFaulted.
func (r *Residency) CheckEvicted(section int) error {
	if r == nil || !r.Mapped {
		return nil
	}
	if err := r.checkFaulted(); err != nil {
		return err
	}
	e := &r.check.evictions
	r.probe(section)
	e.inUse = section + 1
	return r.verifySuspects(section)
}

// checkFaulted ends the use of a section for now: it verifies the section if pages of the process
// were read by faults meanwhile. They may have been others.
func (r *Residency) checkFaulted() error {
	e := &r.check.evictions
	before := e.faults
	e.faults = r.hardFaults()
	if e.inUse == 0 || e.faults == before {
		return nil
	}
	section := e.inUse - 1
	e.found = true
	r.forAround(section, func(s, from, to int) {
		for at := from; at < to; at += pack.BlockBytes {
			e.mark(r.Sections, s, at)
		}
	})
	return r.verifySuspects(section)
}

// hardFaults is [vfs.HardFaults], or 0 if mapped reads cause such faults all the time.
func (r *Residency) hardFaults() int64 {
	if r.File.ReadsMapped() {
		return 0
	}
	return vfs.HardFaults()
}

// probe asks for the pages of a section, as far as its time permits. If it finds one that has left
// memory, it asks for all pages of the section and around it, and marks their blocks.
func (r *Residency) probe(section int) {
	l, e := &r.Sections[section], &r.check.evictions
	if !l.Mapped || !e.pressed && !e.found && (e.cut || section < e.section) {
		return
	}
	at := 0
	if section == e.section && !e.pressed {
		at = e.at
	}
	for ; at < l.Size; at += probeStep {
		if !e.pressed && !e.found && e.credit <= 0 {
			e.section, e.at, e.cut = section, at, true
			return
		}
		began := time.Now()
		_, found := l.mapping.NextEvicted(at, min(at+probeStep, l.Size))
		e.credit -= time.Since(began)
		if found {
			e.found = true
			r.forAround(section, r.markEvicted)
			return
		}
	}
}

// forAround calls do for a mapped section, and for the parts of others within readAround.
func (r *Residency) forAround(section int, do func(section, from, to int)) {
	do(section, 0, r.Sections[section].Size)
	for s, left := section-1, readAround; s >= 0 && left > 0; s-- {
		if l := &r.Sections[s]; l.Mapped {
			do(s, max(0, l.Size-left)/pack.BlockBytes*pack.BlockBytes, l.Size)
			left -= l.Size
		}
	}
	for s, left := section+1, readAround; s < len(r.Sections) && left > 0; s++ {
		if l := &r.Sections[s]; l.Mapped {
			do(s, 0, min(l.Size, left))
			left -= l.Size
		}
	}
}

// markEvicted marks the blocks of a range that are not in memory.
func (r *Residency) markEvicted(section, from, to int) {
	for at := from; at < to; {
		end := min(at+probeStep, to)
		evicted, found := r.Sections[section].mapping.NextEvicted(at, end)
		if !found {
			at = end
			continue
		}
		r.check.evictions.mark(r.Sections, section, evicted)
		at = evicted/pack.BlockBytes*pack.BlockBytes + pack.BlockBytes
	}
}

// mark makes the block of a section at an offset a suspect.
func (e *evictions) mark(sections []Layout, section, at int) {
	if e.suspects == nil {
		e.suspects = make([][]uint64, len(sections))
	}
	if e.suspects[section] == nil {
		e.suspects[section] = make([]uint64, sections[section].SectionSize/pack.BlockBytes/64+1)
	}
	block := at / pack.BlockBytes
	word, bit := &e.suspects[section][block/64], uint64(1)<<(block%64)
	if *word&bit == 0 {
		*word |= bit
		e.marked++
	}
}

// verifySuspects reads and verifies the suspects of a section.
func (r *Residency) verifySuspects(section int) error {
	e := &r.check.evictions
	if e.marked == 0 || e.suspects[section] == nil {
		return nil
	}
	l := &r.Sections[section]
	for i := range e.suspects[section] {
		for word := &e.suspects[section][i]; *word != 0; {
			first := bits.TrailingZeros64(*word)
			n := min(bits.TrailingZeros64(^(*word >> first)), probeStep/pack.BlockBytes)
			at := (i*64 + first) * pack.BlockBytes
			if to := min(at+n*pack.BlockBytes, l.Size); l.Mapped && at < to { // else it was freed
				if err := r.verifyRange(l, at, to); err != nil {
					return err
				}
			}
			*word &^= (1<<n - 1) << first
			e.marked -= n
		}
	}
	e.faults = r.hardFaults() // those of these reads do not count
	return nil
}

// verifyRange reads what is not in memory of a range of a mapped section, admitted by the
// scheduler, and verifies the range.
func (r *Residency) verifyRange(l *Layout, from, to int) error {
	evicted, found := l.mapping.NextEvicted(from, to)
	if !found {
		return r.File.CheckSection(l.index, l.mapping.Bytes(), int64(from), int64(to))
	}
	grant, _ := r.Threads.Scheduler.Admit(prefetch.Awaited, to-evicted)
	defer r.Threads.Scheduler.Done(grant)
	l.mapping.Populate(evicted, to)
	return r.File.CheckSection(l.index, l.mapping.Bytes(), int64(from), int64(to))
}
