package llmrun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/calib"
	"github.com/llmrun/llmrun/exec/draft"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/tiering"
)

// mayNest reports whether the options permit to use the planes of a pack as it stores them. Otherwise they are
// joined as they are read.
func (o *Options) mayNest(f *modelfile.Files) bool {
	return hasPlanes(f) && o.excludesPlanes() == ""
}

// hasPlanes reports whether the model is a pack with planes.
func hasPlanes(f *modelfile.Files) bool {
	p := f.Packed()
	return p != nil && p.HasPlanes()
}

// excludesPlanes returns the option with which planes are joined as they are read, "" for none.
func (o *Options) excludesPlanes() string {
	switch {
	case o.Exact:
		return "Exact"
	case o.merges():
		return "Adapters"
	case o.Quantize != "":
		return "Quantize"
	case o.Lab.W8A8 != nil:
		return "Lab.W8A8"
	case o.usesDevice():
		return "Device.Name"
	}
	return ""
}

// chooseNested decides whether the planes of a pack are used as it stores them: where the budget has room
// for the high planes, but not for the whole model, or where the options name the drafter that needs them.
// The low planes are streamed then. Whole matrices in memory need no joining.
func (o *Options) chooseNested(ctx context.Context, f *modelfile.Files, tokens int) error {
	o.nested = false
	if !o.mayNest(f) {
		return nil
	}
	if o.Drafts.Drafter == DraftNested {
		o.nested = true
		return nil
	}
	plan, err := o.tryPlan(ctx, f, tokens)
	if err == nil && plan.Resident() {
		return nil
	}
	o.nested = true
	if _, err = o.tryPlan(ctx, f, tokens); errors.Is(err, ErrBudget) {
		o.nested, err = false, nil
	}
	return err
}

// tryPlan plans the model with the options as they are.
func (o *Options) tryPlan(ctx context.Context, f *modelfile.Files, tokens int) (*tiering.Plan, error) {
	in, err := o.planInputs(ctx, f, nil, tokens, o.limit())
	if err != nil {
		return nil, err
	}
	return makePlan(in.shape, in.need, tiering.Rates{})
}

// checkNested refuses the drafter DraftNested for a model that has no planes, and for options or a model with which
// the planes cannot draft.
func (o *Options) checkNested(f *modelfile.Files) error {
	if o.Drafts.Drafter != DraftNested {
		return nil
	}
	if !hasPlanes(f) {
		return fmt.Errorf("%w: Drafts.Drafter %s: %s has no planes that can draft; import the model with --nested, or choose another drafter", ErrOptions, DraftNested, f.Path)
	}
	option := o.excludesPlanes()
	if option == "" && !o.selection().Exact() {
		option = "Memory.KVSelect"
	}
	if option != "" {
		return fmt.Errorf("%w: Drafts.Drafter %s: %s excludes it; leave out one of the two", ErrOptions, DraftNested, option)
	}
	spec, err := f.Spec()
	if err != nil {
		return err
	}
	if why := exec.WhyNoDrafts(spec, exec.Selection{}); why != "" {
		return fmt.Errorf("%w: Drafts.Drafter %s: %s is a model with %s, whose planes cannot draft; choose another drafter", ErrOptions, DraftNested, f.Path, why)
	}
	return nil
}

// openNested returns the drafter that computes with the high planes of the model.
func (s *Session) openNested() draft.Drafter {
	seq, model := s.seq, s.engine.model
	return draft.NewNested(func(ctx context.Context, dst []int32, last int32, n int, choose func([]float32) (int32, bool, error)) ([]int32, error) {
		return exec.Draft(ctx, model, seq, dst, last, n, choose)
	})
}

// Values of ImportOptions.Nested: the bits of 4-bit codes in the high planes. Those of 8-bit codes are 4. Another value is a
// percentage, such as "75%".
const (
	NestedNone  = ""      // no planes
	NestedThree = "3"     // 3 bits of all
	NestedMixed = "mixed" // 2 bits of queries, keys, gate and up; the others stay whole
)

// nestedShare returns the part of the matrices that high planes may take, if ImportOptions.Nested is a percentage.
func (o *ImportOptions) nestedShare() (share float64, ok bool) {
	digits, ok := strings.CutSuffix(o.Nested, "%")
	percent, err := strconv.Atoi(digits)
	return float64(percent) / 100, ok && err == nil && percent > 0 && percent < 100
}

// planes returns the choice of planes of an import, nil for none, and what of it the pack stores.
func (o *ImportOptions) planes(ctx context.Context, f *modelfile.Files) (weights.PlaneOf, []pack.Attachment, error) {
	share, ok := o.nestedShare()
	switch {
	case o.Nested == NestedNone:
		return nil, nil, nil
	case !ok:
		return weights.Planes(o.Nested == NestedMixed), nil, nil
	}
	ids, err := textTokens(f, o.Calibrate)
	if err != nil {
		return nil, nil, err
	}
	measured, err := exec.MeasurePlanes(ctx, f, ids, exec.Options{}, progressFunc(o.CalibrateProgress))
	if err != nil {
		return nil, nil, fmt.Errorf("measuring planes of %s: %w", f.Path, err)
	}
	if taken := measured.Choose(share); taken > share && o.Notify != nil {
		o.Notify(fmt.Sprintf("The smallest high planes take %.0f %% of the matrices, more than Nested %s.", 100*taken, o.Nested))
	}
	data, err := measured.Encode()
	return measured.Of, []pack.Attachment{{Name: calib.PlanesAttachment, Data: data}}, err
}

// checkPlanes refuses other values of ImportOptions.Nested.
func (o *ImportOptions) checkPlanes() error {
	_, share := o.nestedShare()
	switch {
	case !share && !slices.Contains([]string{NestedNone, NestedThree, NestedMixed}, o.Nested):
		return fmt.Errorf("%w: Nested is %q; it must be %s, %s or a percentage such as 75%%", ErrOptions, o.Nested, NestedThree, NestedMixed)
	case share && o.Calibrate == "":
		return fmt.Errorf("%w: Nested is %s, which chooses planes by what they are worth on a text: give one as Calibrate", ErrOptions, o.Nested)
	}
	return nil
}

// explainNoPlanes says how to import the model at a path, if no matrix of it could be stored in planes.
func explainNoPlanes(path string, err error) error {
	if !errors.Is(err, weights.ErrNoPlanes) {
		return err
	}
	return fmt.Errorf("%w: %s: %w; import a model of floats with Quantize q8 or q4s", ErrOptions, path, err)
}
