package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/hub"
	"github.com/llmrun/llmrun/internal/cli"
)

func pullCommand() *cli.Command {
	return &cli.Command{
		Name:     "pull",
		Synopsis: "hf:OWNER/REPO[:QUANT] | ollama:NAME[:TAG] | URL [--yes] [--pack] [flags]",
		Summary:  "download a model",
		About: `Downloads a model, which -m then takes by its name: the file's name without its ending. hf: names a repository of huggingface.co, and in it a quantization such as Q4_K_M, or a file; without one, Q4_K_M or the one most like it is taken, and of a repository without GGUF files the safetensors files. ollama: names a model of ollama's registry, and with HOST/NAMESPACE/NAME one of another registry. A URL names a GGUF file, or any part of a split one.

Before the download pull reads the model's header, and says how much of the model stays in memory here and how fast it is. If it would not run or be slow (below 2 tokens per second), pull asks; --yes answers yes, and where nobody can be asked pull refuses. plan hf:… shows the whole plan.

A download that was interrupted continues with the same command, also after a power cut. The files are compared with the SHA-256 that the server publishes, or with --sha256; those of other URLs have none. --pack imports the model while it is downloaded, and deletes what is in the pack, so that the disk holds the model once. Where that is not possible a line says so, and the model is imported after the download.

HF_TOKEN is sent to huggingface.co, or to the server of HF_ENDPOINT, and to no other. HTTPS_PROXY and NO_PROXY are used. Models are kept in llmrun/models of the user's data directory (XDG_DATA_HOME), or in LLMRUN_MODELS.

--json prints one object: name, path, bytes, source and from.`,
		Examples: []cli.Example{
			{Line: "llmrun pull hf:Qwen/Qwen2.5-1.5B-Instruct-GGUF && llmrun chat -m qwen2.5-1.5b-instruct-q4_k_m", Purpose: "download a model and talk to it"},
			{Line: "llmrun pull hf:bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_0 --pack", Purpose: "a quantization, kept in the format that loads fastest"},
			{Line: "llmrun pull ollama:llama3.2:1b", Purpose: "from ollama's registry"},
			{Line: "llmrun pull https://example.com/models/fox-q8_0.gguf --name fox", Purpose: "from any server, with a name of your own"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			p := &pullFlags{}
			p.add(f)
			return p.run
		},
	}
}

// pullFlags are the flags of pull.
type pullFlags struct {
	model  modelFlags // only of its plan
	yes    bool
	pack   bool
	name   string
	sha256 string
	json   bool
	quiet  bool
}

var sha256Text = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)

func (p *pullFlags) add(f *cli.FlagSet) {
	f.Group("Download")
	f.Toggle(&p.yes, "y yes", "download the model even if it would be slow here, or not run")
	f.Toggle(&p.pack, "pack", "import the model while it is downloaded, and keep only the pack")
	f.Text(&p.name, "name", "NAME", "the name of the model here; default: that of its file without the ending")
	f.Value("sha256", "HEX", "with a URL: the SHA-256 that the file must have", func(text string) error {
		if !sha256Text.MatchString(text) {
			return fmt.Errorf("must be 64 hexadecimal digits, not %q", text)
		}
		p.sha256 = strings.ToLower(text)
		return nil
	})
	f.Group("Plan")
	addRAM(f, &p.model.ram, "the available memory")
	f.Setting("ram").Named("memory budget")
	f.Group("Output")
	f.Toggle(&p.json, "json", "print one JSON object")
	f.Toggle(&p.quiet, "q quiet", "print no progress and no plan")
}

// hubClient returns the client of pull and plan.
func hubClient(s *cli.Streams) *hub.Client {
	c := hub.FromEnvironment(os.Getenv)
	c.Agent, c.Notify = "llmrun/"+thisVersion().Version, s.Note
	return c
}

func (p *pullFlags) run(ctx context.Context, s *cli.Streams, args []string) error {
	if len(args) != 1 {
		return cli.Usagef("give exactly one model to download, such as hf:OWNER/REPO or ollama:NAME")
	}
	ref, err := parseReference(args[0])
	if err != nil {
		return err
	}
	if err := p.check(); err != nil {
		return err
	}
	if p.quiet {
		s.ErrTerminal, s.Quiet = false, true
	}
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	client := hubClient(s)
	remote, err := client.Find(ctx, ref)
	if err != nil {
		return cli.Interruption(ctx, err)
	}
	if err := p.adjust(remote); err != nil {
		return err
	}
	if remote.Note != "" {
		s.Note(remote.Note)
	}
	store := modelPlaces().Store()
	store.Hashed = rememberHash
	m, has, err := store.Has(remote)
	if err != nil {
		return err
	}
	if !has {
		if err := p.consider(ctx, s, client, store, remote); err != nil {
			return cli.Interruption(ctx, err)
		}
		if m, err = p.download(ctx, s, client, store, remote); err != nil {
			return err
		}
	}
	if p.pack && filepath.Ext(m.Path) != llmrun.PackSuffix {
		if m, err = packPulled(ctx, s, store, m); err != nil {
			return cli.Interruption(ctx, err)
		}
	}
	return p.report(s, m, has)
}

// rememberHash spares the first use of a file the reading of all of it. What cannot be remembered only costs time.
func rememberHash(path string, sum [sha256.Size]byte, size int64) {
	cache := &cacheFlags{}
	if dir, err := cache.directory(); err == nil {
		_ = llmrun.RememberHash(dir, path, sum, size)
	}
}

// check refuses names that no file can have.
func (p *pullFlags) check() error {
	if p.name == "" {
		return nil
	}
	if err := hub.CheckName(p.name); err != nil {
		return cli.Usagef("--name: %v", err)
	}
	return nil
}

// parseReference parses the argument of pull.
func parseReference(text string) (hub.Reference, error) {
	ref, err := hub.ParseReference(text)
	if errors.Is(err, hub.ErrReference) {
		if !hub.IsReference(text) && ollamaLike.MatchString(text) {
			return ref, cli.Usagef("%s: say from where: ollama:%s, or hf:OWNER/%s", text, text, text)
		}
		if !hub.IsReference(text) && hubLike.MatchString(text) {
			return ref, cli.Usagef("%s: say from where: hf:%s", text, text)
		}
		return ref, cli.Usagef("%v", err)
	}
	return ref, err
}

// adjust applies --name and --sha256.
func (p *pullFlags) adjust(remote *hub.Remote) error {
	if p.sha256 != "" {
		if len(remote.Files) != 1 {
			return cli.Usagef("--sha256 is for one file, and the model has %d", len(remote.Files))
		}
		digest := "sha256:" + p.sha256
		if published := remote.Files[0].Digest; strings.HasPrefix(published, "sha256:") && published != digest {
			return fmt.Errorf("--sha256: the server publishes another one: %s", strings.TrimPrefix(published, "sha256:"))
		}
		remote.Files[0].Digest = digest
	}
	remote.Arguments = p.arguments()
	if p.name == "" {
		return nil
	}
	return remote.Rename(p.name)
}

// arguments returns the flags without which the same reference is another download.
func (p *pullFlags) arguments() string {
	var list []string
	if p.pack {
		list = append(list, "--pack")
	}
	if p.name != "" {
		list = append(list, "--name "+p.name)
	}
	if p.sha256 != "" {
		list = append(list, "--sha256 "+p.sha256)
	}
	return strings.Join(list, " ")
}

// consider says what the model needs and how fast it would be, and asks where that is poor.
func (p *pullFlags) consider(ctx context.Context, s *cli.Streams, client *hub.Client, store *hub.Store, remote *hub.Remote) error {
	missing := store.Missing(remote)
	if err := store.CheckSpace(missing); err != nil {
		return err
	}
	outlook, err := foresee(ctx, client, remote, p.model.ram)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s: %s", remote.Name, cli.FormatBytes(remote.Bytes()))
	if missing < remote.Bytes() {
		text += fmt.Sprintf(", of which %s are here", cli.FormatBytes(remote.Bytes()-missing))
	}
	text += "; " + outlook.text + smallerText(remote)
	if !outlook.poor {
		s.Note(text)
		return nil
	}
	if p.yes {
		s.Note(text + "; downloaded all the same")
		return nil
	}
	refused := outlook.refused(text)
	if !s.InTerminal || !s.ErrTerminal {
		return refused
	}
	s.Say("llmrun: " + cli.OneLine(errors.New(text)))
	fmt.Fprint(s.Err, "Download it all the same? [y/N] ")
	yes, err := answeredYes(ctx, s)
	if err != nil || !yes {
		return errors.Join(err, errNotDownloaded)
	}
	return nil
}

var errNotDownloaded = errors.New("nothing was downloaded")

// answeredYes reads the answer to a question.
func answeredYes(ctx context.Context, s *cli.Streams) (bool, error) {
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(s.In).ReadString('\n') // the end of the input is no answer
		answer <- line
	}()
	select {
	case line := <-answer:
		line = strings.ToLower(strings.TrimSpace(line))
		return line == "y" || line == "yes", nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// smallerText lists smaller quantizations.
func smallerText(remote *hub.Remote) string {
	const most = 4
	var list []string
	for _, c := range remote.Smaller[:min(most, len(remote.Smaller))] {
		list = append(list, c.Label+" "+cli.FormatBytes(c.Bytes))
	}
	if len(list) == 0 {
		return ""
	}
	return "; smaller: " + strings.Join(list, ", ")
}

// download downloads a model, with --pack as a pack where that is possible.
func (p *pullFlags) download(ctx context.Context, s *cli.Streams, client *hub.Client, store *hub.Store, remote *hub.Remote) (hub.Model, error) {
	if !p.pack || filepath.Ext(remote.Path) == llmrun.PackSuffix {
		return download(ctx, s, client, store, remote)
	}
	m, err := downloadPack(ctx, s, client, store, remote)
	if !errors.Is(err, hub.ErrNotInSteps) {
		return m, err
	}
	if err := store.CheckSpace(store.Missing(remote) + remote.Bytes()); err != nil {
		return m, err
	}
	s.Note(fmt.Sprintf("%v: the model is downloaded first, and the disk holds both until it is imported", err))
	return download(ctx, s, client, store, remote)
}

// packer is an import for package hub.
type packer struct{ *llmrun.SteppedImport }

// Write implements hub.Packer.
func (p packer) Write(ctx context.Context, to hub.PackFile, o hub.PackSteps) error {
	err := p.SteppedImport.Write(ctx, to, llmrun.ImportSteps{
		From: llmrun.ImportStep(o.From), Every: o.Every,
		Checkpoint: func(step llmrun.ImportStep) error { return o.Checkpoint(hub.PackStep(step)) },
		Hashes: func(ctx context.Context) (map[string]llmrun.FileHash, error) {
			hashes, err := o.Hashes(ctx)
			files := map[string]llmrun.FileHash{}
			for path, h := range hashes {
				files[path] = llmrun.FileHash(h)
			}
			return files, err
		},
	})
	if errors.Is(err, llmrun.ErrImportStep) {
		return fmt.Errorf("%w: %w", hub.ErrPackStart, err)
	}
	return err
}

// downloadPack downloads a model and makes a pack of it meanwhile.
func downloadPack(ctx context.Context, s *cli.Streams, client *hub.Client, store *hub.Store, remote *hub.Remote) (hub.Model, error) {
	plan := func(files fs.FS) (hub.Packer, error) {
		steps, err := llmrun.PlanSteppedImport(files, remote.Path, s.Note)
		if err != nil {
			return nil, err
		}
		return packer{steps}, nil
	}
	checking := &phases{s: s, labels: []string{"checking"}}
	defer checking.finish()
	check := func(path string) error { return llmrun.Verify(ctx, path, checking.report) }
	return withProgress(ctx, s, client, remote, func(progress func(done, total int64)) (hub.Model, error) {
		return store.PullPack(ctx, client, remote, plan, check, progress)
	})
}

// download downloads a model with a progress bar.
func download(ctx context.Context, s *cli.Streams, client *hub.Client, store *hub.Store, remote *hub.Remote) (hub.Model, error) {
	return withProgress(ctx, s, client, remote, func(progress func(done, total int64)) (hub.Model, error) {
		return store.Pull(ctx, client, remote, progress)
	})
}

// withProgress shows the progress of a download, and after a failure what is kept, and how pull continues.
func withProgress(ctx context.Context, s *cli.Streams, client *hub.Client, remote *hub.Remote, pull func(progress func(done, total int64)) (hub.Model, error)) (hub.Model, error) {
	bar := cli.NewMeter(s, "downloading", cli.FormatBytes)
	defer bar.Finish()
	client.Notify = func(text string) { bar.Finish(); s.Note(text) }
	here := int64(0)
	m, err := pull(func(done, total int64) {
		here = done
		bar.Update(done, total)
	})
	bar.Finish()
	if err == nil || errors.Is(err, hub.ErrNotInSteps) {
		return m, err
	}
	if here > 0 && !errors.Is(err, hub.ErrDigest) && !errors.Is(err, hub.ErrDiscarded) {
		s.Note(fmt.Sprintf("%s of %s are kept; llmrun pull %s continues, and llmrun models rm %s deletes them", cli.FormatBytes(here), cli.FormatBytes(remote.Bytes()), remote.From(), remote.Name))
	}
	return m, cli.Interruption(ctx, err)
}

// packPulled imports a model that was pulled, and deletes what was downloaded.
func packPulled(ctx context.Context, s *cli.Streams, store *hub.Store, m hub.Model) (hub.Model, error) {
	pack := m.Name + llmrun.PackSuffix
	path := filepath.Join(store.Dir, pack)
	bar := &phases{s: s, labels: []string{"importing", "checking"}}
	defer bar.finish()
	if _, err := llmrun.Import(ctx, m.Path, path, llmrun.ImportOptions{Notify: s.Note, Progress: bar.report}); err != nil {
		return m, err
	}
	if err := llmrun.Verify(ctx, path, bar.report); err != nil {
		return m, err
	}
	return store.Replace(m.Name, pack)
}

// report prints the model.
func (p *pullFlags) report(s *cli.Streams, m hub.Model, had bool) error {
	if p.json {
		return s.Out.WriteJSON(m)
	}
	text := ""
	if had {
		text = "is here already, "
	}
	fmt.Fprintf(s.Out, "%s: %s%s in %s\n", cli.VisibleLine(m.Name), text, cli.FormatBytes(m.Bytes), cli.VisibleLine(m.Path))
	if !s.Quiet {
		s.Say(fmt.Sprintf("llmrun chat -m %s talks to it", cli.VisibleLine(m.Name)))
	}
	return nil
}

// slowSpeed is the speed in tokens per second below which pull asks. People read more than twice as fast.
const slowSpeed = 2.0

// An outlook says how a model would run on this machine.
type outlook struct {
	text string
	poor bool
	err  error // why it would not run
}

// refused returns the error for a poor outlook.
func (o *outlook) refused(text string) error {
	return &poorError{text + "; --yes downloads it all the same", o.err}
}

// A poorError refuses a download. Its cause, which the text has in other words, decides about the exit code.
type poorError struct {
	text  string
	cause error
}

func (e *poorError) Error() string { return e.text }

// Unwrap returns the cause.
func (e *poorError) Unwrap() error { return e.cause }

// needText says what a model needs that does not run.
func needText(err error) string {
	var minimum *llmrun.MinimumError
	switch {
	case !errors.As(err, &minimum):
		return err.Error()
	case minimum.ContextFits > 0:
		return fmt.Sprintf("it needs at least %s, or less with --ctx %d", cli.FormatBytes(minimum.Minimum), minimum.ContextFits)
	}
	return "it needs at least " + cli.FormatBytes(minimum.Minimum)
}

// foresee plans a model on a server. It returns an error only if ctx ends.
func foresee(ctx context.Context, client *hub.Client, remote *hub.Remote, ram ramFlag) (outlook, error) {
	options := llmrun.Options{Memory: llmrun.MemoryOptions{RAM: ram.bytes, WatchProcess: true}}
	cache := &cacheFlags{}
	cache.apply(&options)
	how := llmrun.PlanOptions{RatesDir: options.Cache.Dir}
	plan, err := planRemote(ctx, client, remote, options, how)
	if ctx.Err() != nil {
		return outlook{}, context.Cause(ctx)
	}
	memory := fmt.Sprintf("on this machine with --ram %s:", cli.FormatBytes(ram.bytes))
	if ram.bytes <= 0 {
		memory = fmt.Sprintf("on this machine with %s free:", cli.FormatBytes(llmrun.AvailableMemory()))
	}
	switch {
	case errors.Is(err, hub.ErrNoRanges), errors.Is(err, hub.ErrTooMuch):
		return outlook{text: fmt.Sprintf("not planned before the download: %v", err)}, nil
	case errors.Is(err, llmrun.ErrBudget):
		return outlook{text: fmt.Sprintf("%s it does not run: %s", memory, needText(err)), poor: true, err: err}, nil
	case err != nil:
		return outlook{text: fmt.Sprintf("llmrun cannot run it: %v", err), poor: true, err: err}, nil
	}
	text := fmt.Sprintf("%s %s resident, about %s tok/s", memory, residentText(plan), speedText(plan.PredictedDecode))
	return outlook{text: text, poor: plan.PredictedDecode < slowSpeed}, nil
}

// residentText returns the part of the weights that stays in memory as a percentage. Rows of embeddings are read one by
// one, and do not count.
func residentText(plan *llmrun.MemoryPlan) string {
	var all, pinned int64
	for i := range plan.Sections[:len(plan.Pinned)+1] {
		all, pinned = all+plan.Sections[i].Bytes, pinned+plan.Sections[i].Pinned
	}
	if all == 0 {
		return "100 %"
	}
	return fmt.Sprintf("%d %%", 100*pinned/all)
}

// planRemote plans a model on a server from its header.
func planRemote(ctx context.Context, client *hub.Client, remote *hub.Remote, options llmrun.Options, how llmrun.PlanOptions) (*llmrun.MemoryPlan, error) {
	options.FS = client.Open(ctx, remote)
	plan, err := llmrun.PlanMemory(ctx, remote.Path, options, how)
	if errors.Is(err, hub.ErrTooMuch) && options.Cache.Dir != "" {
		// With a full cache the library compares the content of the model with that of the packs there.
		options.Cache.Dir = ""
		return llmrun.PlanMemory(ctx, remote.Path, options, how)
	}
	return plan, err
}
