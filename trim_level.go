package llmrun

import (
	"context"
	"fmt"
)

// TrimLevel is the urgency with which memory is needed; see [Engine.Trim].
type TrimLevel int

// Trim levels; [AndroidTrimLevel] maps those of Android to them.
const (
	TrimNone     TrimLevel = iota // restore what the budget permits
	TrimModerate                  // release what is cheap to restore
	TrimLow                       // release a quarter of what the engine holds
	TrimCritical                  // release everything that the engine can work without
)

// trimNames are the names of the levels.
var trimNames = [...]string{TrimNone: "none", TrimModerate: "moderate", TrimLow: "low", TrimCritical: "critical"}

// String returns the name of the level, such as "low".
func (l TrimLevel) String() string {
	if !l.valid() {
		return fmt.Sprintf("TrimLevel(%d)", int(l))
	}
	return trimNames[l]
}

func (l TrimLevel) valid() bool { return l >= TrimNone && l <= TrimCritical }

// Levels of Android's ComponentCallbacks2.onTrimMemory, in Android's order. The first three are for a
// program in use, the others for one whose windows are hidden.
const (
	androidRunningModerate = 5
	androidRunningLow      = 10
	androidRunningCritical = 15
	androidUIHidden        = 20
	androidBackground      = 40
	androidModerate        = 60 // in the middle of the list of programs that Android ends
)

// AndroidTrimLevel returns the level for one that Android passes to onTrimMemory. Android adds levels, so
// one that is not known counts as the next lower one.
func AndroidTrimLevel(level int) TrimLevel {
	switch {
	case level >= androidModerate:
		return TrimCritical
	case level >= androidBackground:
		return TrimLow
	case level >= androidUIHidden:
		return TrimModerate
	case level >= androidRunningCritical:
		return TrimCritical
	case level >= androidRunningLow:
		return TrimLow
	case level >= androidRunningModerate:
		return TrimModerate
	}
	return TrimNone
}

// Trim releases memory without changing the budget: memory that is not in use, and more
// according to the level, relative to what the engine held before the first call. Repeating a
// level has no further effect. TrimNone, or SetBudget, restores the previous state. Trim does
// not fail because of memory that must stay, such as the weights of a model that is not a
// pack. It does not change the answers.
//
// Trim returns how many bytes less the engine holds than before the call, negative if it restored some.
// It waits for the running pass. If ctx ends, Trim returns its error, and the engine goes on as before.
func (e *Engine) Trim(ctx context.Context, level TrimLevel) (freed int64, err error) {
	if !level.valid() {
		return 0, fmt.Errorf("%w: the trim level is %d; it must be one of the Trim constants", ErrOptions, int(level))
	}
	m := &e.mem
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.budget.Usage().Total
	if m.level == TrimNone {
		m.untrimmed = before
	}
	budget := m.ownerBudget
	switch level {
	case TrimLow:
		budget = smaller(budget, m.untrimmed/4*3)
	case TrimCritical:
		budget = 1
	}
	switch err = e.shrinkTo(ctx, budget, level > TrimNone); {
	case err == nil:
		m.level = level
	case ctx.Err() != nil:
		err = endOf(ctx)
	}
	return before - m.budget.Usage().Total, err
}
