package llmrun

import (
	"cmp"
	"context"
	"errors"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/hetero/rates"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// planInputs is what a plan is made of.
type planInputs struct {
	shape  tiering.Shape
	matmul rates.Matmul // the kind that makes most operations; zero with a device that is not opened
	need   tiering.Need
	// placed is which layers a GPU computes; nil without a GPU. The plan is for the other layers.
	placed *gpuPlacement
}

// admission is the decision on how a model runs: its plan, and the inputs of the plan.
type admission struct {
	planInputs
	plan *tiering.Plan
	// least is the shape of the model in the smallest budget.
	least tiering.Shape
	// layersThatFit is the advice for a budget that has no room for all layers on the GPU; 0: none.
	layersThatFit int
	// imports: the weights do not fit, and the model is imported first, because a pack is
	// streamed without conversion.
	imports bool
	// beside is memory that the budget must have room for in addition to the smallest plan: a prompt,
	// or logits and the repair of a damaged pack.
	beside int64
	repair int64 // of the pack in the cache; 0: the model has none
}

// shareSteps makes what the steps of one opening, or of one plan, share. Every function that calls
// admit calls it first.
func (o *Options) shareSteps() {
	_ = codeBytes() // now, because more of the code is resident after other steps, which differ between a plan and a run
	o.mapped, o.promptTokens, o.driver = &vfs.MappedReads{}, &promptTokens{}, &driver{}
	o.draftFiles, o.rewardFiles = &besideFiles{}, &besideFiles{}
}

// admit decides whether a model runs with these options. Open and PlanMemory call it, so that
// both accept the same models and refuse the others in the same words. A model that Open imports
// first is planned as its pack. If the model is refused, the admission still holds the inputs
// of the plan.
func (o *Options) admit(ctx context.Context, f *modelfile.Files, perTensor *exec.W8A8) (admission, error) {
	o.chooseFlashReads(f)
	o.room = o.flashRoom(o.dailyWrites())
	o.room.report(o)
	a, err := o.admitContext(ctx, f, perTensor)
	if a, err = o.admitPromptTokens(ctx, f, perTensor, a, err); err != nil {
		err = o.adviseLayers(ctx, f, perTensor, &a, o.adviseWrites(ctx, f, perTensor, err))
		err = cmp.Or(o.exceedsContext(f, err), err)
	}
	return a, err
}

// admitContext decides about the context that the options request, or about the one that the plan
// chooses.
func (o *Options) admitContext(ctx context.Context, f *modelfile.Files, perTensor *exec.W8A8) (admission, error) {
	a, err := o.admitPrompt(ctx, f, perTensor, 0)
	if err != nil {
		return o.refuseWithWrites(ctx, f, perTensor, a, err)
	}
	return o.admitWrites(ctx, f, perTensor, a)
}

// admitPrompt decides about a context whose first tokens must fit into the room on flash; see
// [tiering.Need].
func (o *Options) admitPrompt(ctx context.Context, f *modelfile.Files, perTensor *exec.W8A8, tokens int) (a admission, err error) {
	if err := o.chooseNested(ctx, f, tokens); err != nil {
		return a, err
	}
	if a.planInputs, err = o.planInputs(ctx, f, perTensor, tokens, o.limit()); err != nil {
		return a, err
	}
	spec, err := f.Spec()
	if err != nil {
		return a, err
	}
	importable := f.Packed() == nil && o.mayCache() && !o.importRefused
	if importable && f.Quantized() { // it is imported in any case
		a.shape.Convert = 0
	}
	mayImport := importable && (f.Quantized() || a.shape.Convert > 0)
	a.least = a.shape
	a.plan, err = makePlan(a.shape, a.need, tiering.Rates{})
	if importable && a.shape.Convert > 0 {
		a.least.Convert = 0
		if err != nil || !a.plan.Resident() {
			a.shape, a.imports = a.least, true
			a.plan, err = makePlan(a.shape, a.need, tiering.Rates{})
		}
	}
	if others, failed := o.otherOutcomes(f, perTensor); len(others) > 0 || failed != nil {
		if failed != nil {
			return a, failed
		}
		a.least = a.hardest(others)
		if _, refused := makePlan(a.least, a.need, tiering.Rates{}); refused != nil {
			a.plan, err = nil, refused
		}
	}
	passes := logitsHeap(o.Memory.LogitRows, spec.Vocab)
	if !o.usesDevice() && (f.Cached() || mayImport) {
		a.repair = repairMemory(f, spec, &a.least)
	}
	a.beside = max(o.Memory.Prompt, passes+a.repair)
	return a, a.admitBeside(err, a.beside-(passes+a.repair))
}

// admitBeside refuses a budget that has no room for a.beside, or for the model alone (err), with
// the minimum for both. Of the contexts that a plan may choose it takes one with room for both. prompt is the part of a.beside
// that a shorter prompt saves.
func (a *admission) admitBeside(err error, prompt int64) error {
	if a.beside == 0 || err != nil && !errors.Is(err, ErrBudget) {
		return err
	}
	need := a.need
	need.Heap, need.Prompt = need.Heap+a.beside, prompt
	both, refused := makePlan(a.least, need, tiering.Rates{})
	if refused != nil {
		a.plan = nil
		return refused
	}
	if a.plan != nil && both.Context < a.plan.Context && a.minimum() > need.Budget && need.Budget > 0 {
		a.need.Context = both.Context
		a.plan, err = makePlan(a.shape, a.need, tiering.Rates{})
	}
	return err
}

// minimum returns the smallest budget with which the model runs, for the context of the plan.
func (a *admission) minimum() int64 {
	need := a.need
	need.Heap += a.beside
	if a.plan != nil {
		need.Context = a.plan.Context
	}
	return minimumOf(a.least, need)
}

// minimumOf returns the smallest budget of a model.
func minimumOf(s tiering.Shape, n tiering.Need) int64 {
	n.Budget = 1
	_, err := tiering.MakePlan(s, n, tiering.Rates{})
	var refused *tiering.MinimumError
	if errors.As(err, &refused) {
		return refused.Minimum
	}
	return 0
}

// hardest returns the shape with the largest minimum.
func (a *admission) hardest(others []tiering.Shape) tiering.Shape {
	hardest, most := a.least, minimumOf(a.least, a.need)
	for _, other := range others {
		if minimum := minimumOf(other, a.need); minimum > most {
			hardest, most = other, minimum
		}
	}
	return hardest
}
