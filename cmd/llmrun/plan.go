package main

import (
	"context"
	"errors"
	"math"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/hub"
	"github.com/llmrun/llmrun/internal/cli"
)

func planCommand() *cli.Command {
	return &cli.Command{
		Name:     "plan",
		Synopsis: "[MODEL | -m MODEL] [--ram SIZE] [--ctx N] [flags of run] [--device NAME | --devices LIST] [--json]",
		Summary:  "plan the memory of a model and predict its speed",
		About: `Plans the memory of a model without loading it: which weights stay in memory, which are read from flash during each pass, and the predicted speed. A model that does not fit still runs: each pass streams the other weights from flash, and a larger budget makes it faster. plan takes the flags of run for the model and its memory, and refuses what run refuses, in the same words and with exit code 3. A model that llmrun pull could download, such as hf:OWNER/REPO:QUANT, is planned from its header, which is all that plan reads of it. The error lists the parts of the minimum; with --json, runs, refused and minimum_bytes say it. --prompt N is the length of any prompt, and the plan leaves room to convert a text of that many tokens; --ids plans for a prompt of token ids, which need none.

The prediction uses the speed of this machine, which is measured once and saved with the imported models. It is without guesses of tokens (see --draft of run); "with guesses" predicts the speed with those that --draft selects, from how often guesses were right in earlier runs of the model that streamed weights or named the drafter, with the same cache directory, or from an assumption. The speed of a named drafter with a model with experts is not predicted, because a guess may need other experts. "together" predicts the tokens per second of 2, 4, 8 and 16 answers that are generated at the same time and share passes (see --samples of run), as far as the budget has room for them, and not for a model with experts; with --json it lists n and tok_per_s. With --best-of reward:MODEL, the plan has the reward model too. With --json, guesses_not_predicted says why not, and guesses lists drafter, decode_tok_per_s, tokens_per_pass, guesses (in a pass; 0 where they do not pay) and seen_passes of those runs, 0 if it is assumed.

With --device gpu, or gpu: and part of a device's name, it also shows how many layers fit in that GPU's memory, and plans the machine's memory for the others; it predicts no speed: run --stats measures it. A driver that has not been measured with the model is opened only if --ram leaves 512 MiB for it, or is not given. With --json the object has "device", "layers", "of", "held_bytes", "need_bytes", "memory_bytes" and "here_bytes", too. With --device cpu+NAME it plans the memory of the rows that the CPU keeps of each matrix, and measures the devices if no run has; before the first run has tried the split, it takes the larger of the minima with and without it. It predicts the speed at the start of a conversation from the passes that the first run has timed.

--devices plans how to split each matmul of the model between two devices, for several numbers of tokens, and compares the split with each device alone. It uses the measurements of llmrun profile, and takes those that are missing. llmrun run --device cpu+NAME runs such a split, by rows.`,
		Examples: []cli.Example{
			{Line: "llmrun plan -m model.gguf", Purpose: "with the available memory"},
			{Line: "llmrun plan -m model.gguf --ram 1.5GiB --ctx 4K", Purpose: "with a budget and a context"},
			{Line: "llmrun plan -m model.gguf --ram 50% --json", Purpose: "with half of the available memory, for a script"},
			{Line: "llmrun plan hf:Qwen/Qwen2.5-1.5B-Instruct-GGUF", Purpose: "of a model that is not downloaded yet"},
			{Line: "llmrun plan -m model.gguf --measure", Purpose: "measure the machine again"},
			{Line: "llmrun plan -m model.gguf --device gpu --ctx 8K", Purpose: "how many layers fit on the GPU with 8192 tokens of context"},
			{Line: "llmrun plan -m model.gguf --devices cpu-a,cpu-b", Purpose: "how to split matmuls between two groups of cores"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			p := &planFlags{}
			f.Everyday(
				everydayModel,
				"ram: memory limit, such as 1.5GiB; weights that do not fit are read from flash, and the answer is the same",
				"ctx: tokens of context, such as 8K", "kv: format of keys and values",
				"prompt: plan for a prompt of N tokens, and predict its time", "answer: and of an answer of M tokens",
				"measure: measure the machine again", "json: print one JSON object",
			)
			p.model.addAnswering(f)
			p.model.addSession(f)
			f.Group("Plan")
			f.Count(&p.how.Prompt, "prompt", "N", "plan a context for a prompt of N tokens, and predict its time; default: predict that of 512, or half of the context", 1, math.MaxInt32)
			f.Text(&p.ids, "ids", "LIST", "in place of --prompt: the token ids that run gets with --ids; - reads them from standard input")
			f.Count(&p.how.Answer, "answer", "M", "and of an answer of M tokens", 1, math.MaxInt32)
			p.generation.addOverflow(f)
			p.samples.addReward(f)
			f.Toggle(&p.how.Measure, "measure", "measure the machine again")
			p.devices.add(f)
			f.Group("Output")
			f.Toggle(&p.json, "json", "print one JSON object")
			return p.run
		},
	}
}

// planFlags are the flags of plan.
type planFlags struct {
	model   modelFlags
	devices deviceFlags
	how     llmrun.PlanOptions
	ids     string
	heldIDs []int32 // of ids: their memory counts, as in run
	json    bool

	generation generationFlags // only how the context overflows
	samples    sampleFlags     // only the reward model
}

func (p *planFlags) run(ctx context.Context, s *cli.Streams, args []string) error {
	if err := p.model.takeArgument(args); err != nil {
		return err
	}
	if err := p.check(); err != nil {
		return err
	}
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	if p.devices.names != nil {
		return p.devices.plan(ctx, s, &p.model, p.model.cache, p.how.Measure, p.json)
	}
	long, err := p.expectIDs(s)
	if err != nil {
		return err
	}
	p.model.reward = p.samples.reward
	remote, err := p.findRemote(ctx, s)
	if err != nil {
		return cli.Interruption(ctx, err)
	}
	path, options, err := p.source(remote)
	if err != nil {
		return err
	}
	if err := p.model.w8a8.apply(&options, p.model.exact); err != nil {
		return err
	}
	if err := p.model.applyCache(&options); err != nil {
		return err
	}
	if dir, err := p.model.cache.directory(); err == nil {
		p.how.RatesDir = dir // also for the bundled demo model, which imports nothing
	}
	options.Notify = s.Note
	if isSplit(options.Device.Name) || isGPU(options.Device.Name) {
		p.model.saveMeasurements(s, &options)
	}
	if isSplit(options.Device.Name) {
		measuring := cli.NewMeter(s, "measuring the devices", formatMatmuls)
		defer measuring.Finish()
		options.Device.Progress = func(done, total int) { measuring.Update(int64(done), int64(total)) }
	}
	p.how.Overflow = p.generation.promptOverflow(p.model.session == "")
	if p.how.Answer == 0 { // as run without -n
		options.Memory.AnswerTokens = llmrun.WholeContext
	}
	p.how.MeasureRefused = p.json // only this prints the advice of a refused plan
	var plan *llmrun.MemoryPlan
	if remote != nil {
		plan, err = planRemote(ctx, hubClient(s), remote, options, p.how)
	} else {
		plan, err = llmrun.PlanMemory(ctx, path, options, p.how)
	}
	if long != nil && (err == nil || errors.Is(err, llmrun.ErrBudget)) { // run does not read them
		if err = long.refusal(err); plan != nil {
			plan.Runs, plan.Refused = false, err.Error()
		}
	}
	if plan != nil && p.json {
		return errors.Join(s.Out.WriteJSON(planJSON{plan, newPlacementJSON(plan.GPU)}), err)
	}
	if err != nil {
		return cli.Interruption(ctx, err)
	}
	showPlan(s, plan, p.model.ram.percentOf())
	return nil
}

// expectIDs reads the prompt of --ids as run does. long is a list that run refuses to read.
func (p *planFlags) expectIDs(s *cli.Streams) (long *longPrompt, err error) {
	if p.ids == "" {
		return nil, nil
	}
	p.how.IDs = true
	ids, err := readIDs(s, p.ids, &p.model.ram)
	if errors.As(err, &long) && long.bytes <= cli.MaxInput {
		p.how.Prompt = long.tokens
		p.model.prompt.expectLong(p.generation.promptOverflow(p.model.session == ""), long)
		return long, nil
	}
	p.how.Prompt = len(ids)
	p.heldIDs = ids
	return nil, err
}

// findRemote finds a model on a server, nil if the model is on this machine.
func (p *planFlags) findRemote(ctx context.Context, s *cli.Streams) (*hub.Remote, error) {
	if !hub.IsReference(p.model.path) {
		return nil, nil
	}
	if _, err := modelPlaces().Find(p.model.path); err == nil {
		return nil, nil
	}
	ref, err := parseReference(p.model.path)
	if err != nil {
		return nil, err
	}
	remote, err := hubClient(s).Find(ctx, ref)
	if err == nil && remote.Note != "" {
		s.Note(remote.Note)
	}
	return remote, err
}

// source is that of the model's flags, or for a model on a server its path there.
func (p *planFlags) source(remote *hub.Remote) (path string, options llmrun.Options, err error) {
	if remote == nil {
		return p.model.source()
	}
	options, err = p.model.options()
	return remote.Path, options, err
}

// check refuses flags of different kinds of plans.
func (p *planFlags) check() error {
	split := p.devices.names != nil
	switch {
	case p.ids != "" && (p.how.Prompt > 0 || split):
		return cli.Usagef("--ids is the prompt of a plan of the memory: leave out --prompt and --devices")
	case split && (isGPU(p.model.device) || isSplit(p.model.device)):
		return cli.Usagef("--device plans the memory of a model and --devices the split of its matmuls: give one of them")
	case split && (p.model.ram.bytes != 0 || p.model.kvRAM != 0):
		return cli.Usagef("--ram and --kv-ram plan the machine's memory: leave them out with --devices")
	case !split && (p.devices.tokens != nil || p.devices.quota != 0):
		return cli.Usagef("--tokens and --share need --devices")
	}
	return errors.Join(p.generation.checkOverflow(), p.samples.checkReward(), p.model.checkDevice())
}

// planJSON is what plan prints with --json. The fields of the placement are those of earlier
// versions; its context is the plan's.
type planJSON struct {
	*llmrun.MemoryPlan
	*placementJSON
}

// placementJSON describes which layers a GPU computes.
type placementJSON struct {
	Device      string `json:"device"`
	Layers      int    `json:"layers"`
	ModelLayers int    `json:"of"`
	Held        int64  `json:"held_bytes"`
	Need        int64  `json:"need_bytes"`
	Memory      int64  `json:"memory_bytes"`
	Host        int64  `json:"here_bytes"`
}

// newPlacementJSON returns nil without a GPU.
func newPlacementJSON(p *llmrun.Placement) *placementJSON {
	if p == nil {
		return nil
	}
	return &placementJSON{p.Device, p.Layers, p.ModelLayers, p.Held, p.Need, p.Memory, p.Host}
}
