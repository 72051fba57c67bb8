package llmrun

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/draft"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/ended"
	"github.com/llmrun/llmrun/text/token"
)

// Reward is how good a reward model finds an answer; greater is better. Scores of different reward models are not
// comparable: a head with one value may give any number, and one with two classes gives a probability.
type Reward struct {
	Score float64
	Steps []float64 // of each step, with [RewardOptions].Marker; Score is the least of them
}

// Reward scores an answer to a prompt with the model of [RewardOptions]. Its own chat template renders both; a model
// without one reads the prompt, a space and the answer. It reads the beginning that an answer shares with the one before,
// such as the prompt, once.
func (e *Engine) Reward(ctx context.Context, p Prompt, answer string) (Reward, error) {
	r, err := e.reward()
	if err != nil {
		return Reward{}, err
	}
	if r.tok == nil {
		return Reward{}, fmt.Errorf("%w: the reward model accepts only token ids; use RewardIDs", ErrNoTokenizer)
	}
	if p.IDs != nil {
		t, err := e.tokenizer()
		if err != nil {
			return Reward{}, err
		}
		if p.Text, err = t.Decode(p.IDs); err != nil {
			return Reward{}, fmt.Errorf("%w: %w", ErrToken, err)
		}
	}
	room, err := e.reservePrompt(append(contents(p.Messages), p.Text, answer)...)
	defer room.release()
	if err != nil {
		return Reward{}, err
	}
	marked, ends := r.mark(answer)
	ids, err := r.encode(p, marked, room)
	if err != nil {
		return Reward{}, err
	}
	if r.options.Marker == "" {
		return r.score(ctx, ids, []int{len(ids) - 1})
	}
	at, err := r.inserted(marked, ends, r.markers(ids), room)
	if err != nil {
		return Reward{}, err
	}
	return r.score(ctx, ids, at)
}

// inserted returns those of the positions of all markers that end the steps of an answer. Prompts and answers may have the
// marker too, so it counts the markers of the answer behind each step. No template has one behind the answer, see
// checkTemplate.
func (r *rewardModel) inserted(marked string, ends, all []int, room *promptRoom) (at []int, err error) {
	options := room.encodeOptions(token.EncodeOptions{AllowSpecial: true})
	count := func(end int) int {
		var ids []int32
		if err == nil {
			ids, err = r.tok.Encode(marked[:end], options)
		}
		return len(r.markers(ids))
	}
	answer := count(len(marked))
	for _, end := range ends {
		upTo, without := count(end), count(end-len(r.insertion()))
		if err != nil {
			return nil, err
		}
		own := len(all) - 1 - (answer - upTo)
		if upTo != without+1 || own < 0 {
			return nil, fmt.Errorf("%w: Reward.Marker: %q is not a token of its own behind %q", ErrOptions, r.options.Marker, lastRunes(marked[:end-len(r.insertion())]))
		}
		at = append(at, all[own])
	}
	return at, nil
}

// lastRunes returns the end of a text, for an error.
func lastRunes(text string) string {
	const most = 20
	runes := []rune(text)
	return string(runes[max(0, len(runes)-most):])
}

// insertion is what mark inserts behind a step.
func (r *rewardModel) insertion() string { return " " + r.options.Marker }

// RewardIDs scores a prompt and its answer as token ids of the reward model: with [RewardOptions].Marker at each
// marker, otherwise at the last token.
func (e *Engine) RewardIDs(ctx context.Context, ids []int32) (Reward, error) {
	r, err := e.reward()
	if err != nil {
		return Reward{}, err
	}
	at := []int{len(ids) - 1}
	if r.options.Marker != "" {
		at = r.markers(ids)
	}
	if len(ids) == 0 || len(at) == 0 {
		return Reward{}, fmt.Errorf("%w: there is nothing to score: no tokens, or no marker", ErrOptions)
	}
	return r.score(ctx, ids, at)
}

// reward returns the reward model of an open engine.
func (e *Engine) reward() (*rewardModel, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return nil, ErrClosed
	case e.rewardModel == nil:
		return nil, fmt.Errorf("%w: Reward.Model is empty; it must be the path of a reward model", ErrOptions)
	}
	return e.rewardModel, nil
}

// mark inserts the marker behind each step of an answer, and returns where the markers end.
func (r *rewardModel) mark(answer string) (marked string, ends []int) {
	if r.options.Marker == "" {
		return answer, nil
	}
	separator := r.options.Step
	if separator == "" {
		separator = defaultStep
	}
	var text strings.Builder
	for i, part := range strings.Split(strings.TrimSuffix(answer, separator), separator) {
		if i > 0 {
			text.WriteString(separator)
		}
		text.WriteString(part + r.insertion())
		ends = append(ends, text.Len())
	}
	return text.String(), ends
}

// encode returns the tokens of a prompt with an answer.
func (r *rewardModel) encode(p Prompt, answer string, room *promptRoom) ([]int32, error) {
	if p.Messages != nil && r.chat.source != "" {
		all := append(slices.Clone(p.Messages), Message{Role: "assistant", Content: answer})
		return r.chat.encode(all, ChatOptions{NoGenerationPrompt: true}, room)
	}
	text := p.Text + answer
	if p.Messages != nil {
		text = strings.Join(append(contents(p.Messages), answer), " ")
	}
	return r.tok.Encode(text, room.encodeOptions(token.EncodeOptions{AddSpecial: true, AllowSpecial: r.options.Marker != ""}))
}

// markers returns the positions of the marker.
func (r *rewardModel) markers(ids []int32) (at []int) {
	for i, id := range ids {
		if id == r.marker {
			at = append(at, i)
		}
	}
	return at
}

// score reads what the sequence does not hold of some tokens, and returns the scores at ascending positions.
func (r *rewardModel) score(ctx context.Context, ids []int32, at []int) (got Reward, err error) {
	defer ended.Say(ctx, &err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seq == nil {
		return got, ErrClosed
	}
	defer r.seq.Rest()
	same := draft.CommonPrefix(r.seq.IDs(), ids)
	for pos := range r.known {
		if pos >= same {
			delete(r.known, pos)
		}
	}
	for _, pos := range at { // read again what was not asked for
		if _, ok := r.known[pos]; !ok {
			same = min(same, pos)
		}
	}
	if len(ids) > r.seq.Limit() {
		return got, fmt.Errorf("reward model: %w; a larger Context raises it", &ContextFullError{Tokens: len(ids), Limit: r.seq.Limit(), Prompt: true})
	}
	same = r.seq.Truncate(same)
	if same < len(ids) {
		o := exec.ExtendOptions{Want: func(pos int) bool { return slices.Contains(at, pos) }, Each: r.take}
		if err := r.model.Extend(ctx, r.seq, ids[same:], &o); err != nil {
			return got, fmt.Errorf("reward model: %w", err)
		}
	}
	got.Score = math.Inf(1)
	for _, pos := range at {
		got.Score = min(got.Score, r.known[pos])
		got.Steps = append(got.Steps, r.known[pos])
	}
	if r.options.Marker == "" {
		got.Steps = nil
	}
	if math.IsNaN(got.Score) {
		return got, fmt.Errorf("reward model: the score is not a number; its weights may be damaged")
	}
	return got, nil
}

// take computes the score of a position from its hidden state or its logits.
func (r *rewardModel) take(pos int, values []float32) error {
	if r.head != nil {
		r.known[pos] = r.head.Score(values)
		return nil
	}
	r.known[pos] = modelfile.GoodProbability(float64(values[r.good]), float64(values[r.bad]))
	return nil
}
