package llmrun

import (
	"context"
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/kv/segment"
	"github.com/llmrun/llmrun/store/allowance"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// flashRoom is how many bytes of keys and values may be written to flash, because of the limit of
// the day and of the disk.
type flashRoom struct {
	dir string
	// limit is that of the day, of which used bytes are written; limit < 0 means none.
	limit, used int64
	disk        int64 // bytes that fit on the disk; < 0 if the system does not tell
	failed      error // the count of the day cannot be read
}

// flashRoom returns the room for keys and values now. PlanMemory and Open look at the same files.
func (o *Options) flashRoom(writes *allowance.Allowance) flashRoom {
	r := flashRoom{dir: o.sessionDir(), limit: -1, disk: -1}
	if r.dir == "" {
		return r
	}
	if writes != nil {
		r.limit = writes.Limit()
		if r.used, r.failed = writes.Used(); r.failed != nil {
			r.used = r.limit
		}
	}
	if free, known := vfs.FreeSpaceFor(o.cacheFS(), r.dir); known {
		r.disk = max(0, free-kv.ScratchSpare)
		if o.kvKey != nil { // of each block of 4096 bytes, encryption takes 24 more
			r.disk -= r.disk / (vfs.DirectAlign / 32)
		}
	}
	return r
}

// report tells the user why nothing may be written, although there is an allowance.
func (r *flashRoom) report(o *Options) {
	if r.failed != nil && o.Notify != nil && !o.plans {
		o.Notify(fmt.Sprintf("keys and values stay in memory: the bytes that were written today cannot be counted: %v", r.failed))
	}
}

// bytes returns the room; limited is false if it has no limit.
func (r *flashRoom) bytes() (n int64, limited bool) {
	switch left := max(0, r.limit-r.used); {
	case r.limit < 0:
		return r.disk, r.disk >= 0
	case r.disk < 0 || left <= r.disk:
		return left, true
	}
	return r.disk, true
}

// limitNeed limits the writes of a plan to the room and to written bytes besides.
func (r *flashRoom) limitNeed(n *tiering.Need, written int64) {
	n.KVWrites = 0
	if room, limited := r.bytes(); limited && n.KVCold {
		n.KVWrites = max(1, room+written)
	}
}

// refuse explains the refusal of a conversation for which the room does not suffice, of which written
// bytes are on flash.
func (r *flashRoom) refuse(conversation string, err error, written int64) error {
	var refused *MinimumError
	if !errors.As(err, &refused) {
		return err
	}
	if r.failed != nil {
		return fmt.Errorf("%w; the bytes that were written today cannot be counted: %w", err, r.failed)
	}
	need, remedy := refused.kvWrites-written, ""
	if left := r.limit - r.used; r.limit >= 0 && left < need {
		remedy += fmt.Sprintf(", or allow at least %s of writes a day (--cache-writes)", tiering.AtLeastText(r.used+need))
	}
	if r.disk >= 0 && r.disk < need {
		remedy += fmt.Sprintf(", or free at least %s of the disk of %s, or choose a directory on another disk (--cache-dir)", tiering.AtLeastText(need-r.disk), r.dir)
	}
	if room, _ := r.bytes(); r.disk >= 0 && room == r.disk {
		return fmt.Errorf("%s does not fit in memory, and there is %w on the disk of %s for its keys and values: %s can be written; %w%s",
			conversation, ErrNoRoom, r.dir, tiering.SizeText(room), err, remedy)
	}
	return fmt.Errorf("%s does not fit in memory, and with its keys and values %w: %s were written below %s today (UTC), and the limit is %s; %w%s",
		conversation, ErrWritesSpent, tiering.SizeText(r.used), r.dir, tiering.SizeText(r.limit), err, remedy)
}

// admitWrites decides again if a plan may need more room on flash for the prompt than there is: the
// keys and values then get more memory, or the error says what is missing.
func (o *Options) admitWrites(ctx context.Context, f *modelfile.Files, perTensor *exec.W8A8, a admission) (admission, error) {
	depth := tiering.LeastDepth(a.least, a.need, a.plan.Context)
	if depth >= a.plan.Context {
		return a, nil
	}
	answer := o.Memory.AnswerTokens
	prompt := o.prompt(f, depth-answer, a.need.ContextMax)
	tokens := min(o.conversation(f, prompt), max(prompt, a.plan.Context))
	if tokens <= depth || tokens > a.plan.Context {
		return a, nil
	}
	held, err := o.admitPrompt(ctx, f, perTensor, tokens)
	if errors.Is(err, ErrBudget) {
		if o.mayRestore() {
			return a, nil // the generation decides: flash may have the prompt
		}
		err = o.room.refuse(o.describeConversation(prompt, a.plan.Context), err, 0)
	}
	return held, err
}

// refuseWithWrites returns the refusal of a budget that is too small for the requested context even if
// everything may be written. If the known conversation needs more, because less may be written, it is
// that refusal: its minimum is enough for both.
func (o *Options) refuseWithWrites(ctx context.Context, f *modelfile.Files, perTensor *exec.W8A8, a admission, refusal error) (admission, error) {
	if a.need.KVWrites == 0 || a.need.Context == 0 || o.usesDevice() || !errors.Is(refusal, ErrBudget) || o.mayRestore() {
		return a, refusal
	}
	prompt := o.prompt(f, 0, a.need.ContextMax)
	tokens := min(o.conversation(f, prompt), a.need.Context)
	if tokens == 0 {
		return a, refusal
	}
	held, err := o.admitPrompt(ctx, f, perTensor, tokens)
	if !errors.Is(err, ErrBudget) || held.minimum() <= a.minimum() {
		return a, refusal
	}
	return held, o.room.refuse(o.describeConversation(prompt, a.need.Context), err, 0)
}

// mayRestore reports whether the prefix cache may have a prompt.
func (o *Options) mayRestore() bool {
	return !o.plans && !o.Cache.NoKV && segment.Any(o.kvFS(), o.sessionDir())
}

// adviseWrites adds to a refusal that writes would help, if the user has forbidden them.
func (o *Options) adviseWrites(ctx context.Context, f *modelfile.Files, perTensor *exec.W8A8, refusal error) error {
	var refused *MinimumError
	if o.Cache.DailyWrites != NoWrites || o.sessionDir() == "" || o.usesDevice() || !errors.As(refusal, &refused) {
		return refusal
	}
	with := *o
	with.Cache.DailyWrites, with.Context = 1, refused.Context
	with.room = with.flashRoom(with.dailyWrites())
	used, disk := with.room.used, with.room.disk
	with.room = flashRoom{disk: -1}
	tokens := min(refused.Context, o.prompt(f, 0, refused.Context))
	if tokens == 0 {
		tokens = refused.Context
	}
	_, err := with.admitPrompt(ctx, f, perTensor, tokens)
	if errors.As(err, &refused) && refused.kvWrites > 0 && (disk < 0 || refused.kvWrites <= disk) {
		return fmt.Errorf("%w, or allow at least %s of writes a day (--cache-writes)", refusal, tiering.AtLeastText(used+refused.kvWrites))
	}
	return refusal
}
