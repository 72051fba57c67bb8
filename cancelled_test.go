package llmrun_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// errGone is the cause of cancelled calls.
var errGone = errors.New("the user has gone")

// callWithContext is a call of the library.
type callWithContext = func(ctx context.Context) error

// TestCancelledCallsSaySo cancels every call of the library that takes a context, with a cause of the program's own:
// each error wraps both the cause and context.Canceled.
func TestCancelledCallsSaySo(t *testing.T) {
	t.Parallel()
	calls := cancelledCalls(t)
	var tried []string
	for name, call := range calls {
		ctx, cancel := context.WithCancelCause(t.Context())
		if !strings.HasSuffix(name, " begun") {
			tried = append(tried, name)
			cancel(errGone)
		}
		err := call(ctx)
		cancel(nil)
		require.ErrorIs(t, err, context.Canceled, name)
		require.ErrorIs(t, err, errGone, name)
		require.ErrorContains(t, err, errGone.Error(), name)
	}
	want := callsWithContext(t)
	want = slices.DeleteFunc(want, func(name string) bool { return name == "PlanPlacement" }) // which needs a GPU first
	slices.Sort(tried)
	require.Equal(t, want, tried)
}

// callsWithContext lists the exported functions and methods of the package that take a context.
func callsWithContext(t *testing.T) (names []string) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() || !takesContext(f) {
				continue
			}
			full := f.Name.Name
			if f.Recv != nil {
				pointer, ok := f.Recv.List[0].Type.(*ast.StarExpr)
				require.True(t, ok, full)
				of := pointer.X.(*ast.Ident)
				if !of.IsExported() {
					continue
				}
				full = of.Name + "." + full
			}
			names = append(names, full)
		}
	}
	slices.Sort(names)
	return names
}

// takesContext reports whether the first parameter of a function is a context.
func takesContext(f *ast.FuncDecl) bool {
	if len(f.Type.Params.List) == 0 {
		return false
	}
	kind, ok := f.Type.Params.List[0].Type.(*ast.SelectorExpr)
	return ok && kind.Sel.Name == "Context"
}

// cancelledCalls returns a call of each function and method that takes a context, by its name. Of a name that ends in
// " begun" the call itself cancels what it has begun.
func cancelledCalls(t *testing.T) map[string]callWithContext {
	o := rewarding(demoModel)
	o.Reward.Marker, o.Reward.Good, o.Reward.Bad, o.Cache.Dir = "#", "7", "8", t.TempDir()
	e, s, judge := open(t, demoModel, o), (*llmrun.Session)(nil), open(t, newJudge(t).checkpoint(t), llmrun.Options{Threads: 1})
	s = newSession(t, e)
	path, ids, document := writeShape(t, small(t), "q8_0"), someIDs(e, 100), llmrun.TextDocument("note", strings.Repeat("The fox sleeps.\n\n", 20))
	pack := packed(t, path, llmrun.ImportOptions{})
	first := func(all func(yield func(*llmrun.Candidate, error) bool)) (c *llmrun.Candidate, err error) {
		for c, err = range all {
			if err != nil {
				break
			}
		}
		return c, err
	}
	offered := newSession(t, e)
	chosen, err := first(offered.Candidates(t.Context(), llmrun.Prompt{IDs: ids}, llmrun.CandidateOptions{GenerateOptions: limit(4), N: 2}))
	require.NoError(t, err)
	summarizer, err := e.NewSummarizer(llmrun.SummarizeOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, summarizer.Close()) })
	load := func(string) (llmrun.SummaryAnswer, bool, error) { return llmrun.SummaryAnswer{}, false, nil }
	var step llmrun.SummaryStep
	_, err = summarizer.Assemble(t.Context(), document, load, func(s llmrun.SummaryStep) error { step = s; return nil })
	require.ErrorIs(t, err, llmrun.ErrAnswersMissing)
	steps, err := llmrun.PlanSteppedImport(os.DirFS(filepath.Dir(path)), filepath.Base(path), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, steps.Close()) })
	out, err := os.Create(filepath.Join(t.TempDir(), "stepped.pack"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, out.Close()) })
	model := llmrun.Options{Threads: 1, Context: 256}
	return map[string]callWithContext{
		"Session.Generate":    func(ctx context.Context) error { return collect(s.Generate(ctx, "Hi", limit(4))).err },
		"Session.GenerateIDs": func(ctx context.Context) error { return collect(s.GenerateIDs(ctx, ids, limit(4))).err },
		"Session.Chat":        func(ctx context.Context) error { return collect(s.Chat(ctx, "Hi", limit(4))).err },
		"Session.ChatMessages": func(ctx context.Context) error {
			return collect(s.ChatMessages(ctx, []llmrun.Message{{Role: "user", Content: "Hi"}}, limit(4))).err
		},
		"Session.GenerateIDs begun": func(ctx context.Context) error {
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			o := limit(50)
			o.IgnoreEOS = true
			var err error
			for _, failed := range s.GenerateIDs(ctx, ids, o) {
				cancel(errGone)
				err = failed
			}
			return err
		},
		"Session.Candidates": func(ctx context.Context) error {
			_, err := first(s.Candidates(ctx, llmrun.Prompt{IDs: ids}, llmrun.CandidateOptions{GenerateOptions: limit(4), N: 2}))
			return err
		},
		"Session.Beams": func(ctx context.Context) error {
			o := llmrun.BeamOptions{GenerateOptions: limit(4), Width: 1, Expand: 2, Score: func(context.Context, *llmrun.Candidate) (float64, error) { return 0, nil }}
			_, err := first(s.Beams(ctx, llmrun.Prompt{IDs: ids}, o))
			return err
		},
		"Session.Choose": func(ctx context.Context) error { return offered.Choose(ctx, chosen) },
		"Into": func(ctx context.Context) error {
			_, err := llmrun.Into[struct{ Name string }](ctx, s, "Hi", limit(4))
			return err
		},
		"Engine.Logits": func(ctx context.Context) error { _, err := e.Logits(ctx, ids, nil); return err },
		"Engine.Perplexity": func(ctx context.Context) error {
			_, err := e.Perplexity(ctx, ids, llmrun.PerplexityOptions{})
			return err
		},
		"Engine.Trim": func(ctx context.Context) error { _, err := e.Trim(ctx, llmrun.TrimCritical); return err },
		"Engine.Embed": func(ctx context.Context) error {
			_, err := e.Embed(ctx, []string{"a fox"}, llmrun.EmbedOptions{Pooling: "mean"})
			return err
		},
		"Engine.EmbedIDs": func(ctx context.Context) error {
			_, err := e.EmbedIDs(ctx, [][]int32{ids}, llmrun.EmbedOptions{Pooling: "mean"})
			return err
		},
		"Engine.EmbedIdentity": func(ctx context.Context) error {
			_, err := judge.EmbedIdentity(ctx, llmrun.EmbedOptions{Pooling: "mean"})
			return err
		},
		"Engine.Rank": func(ctx context.Context) error { _, err := judge.Rank(ctx, "bees", []string{"yes"}); return err },
		"Engine.RankCounted": func(ctx context.Context) error {
			_, err := judge.RankCounted(ctx, "bees", []string{"yes"}, nil)
			return err
		},
		"Engine.RankIDs": func(ctx context.Context) error { _, err := judge.RankIDs(ctx, [][]int32{{1, 2, 3}}); return err },
		"Engine.Reward":  func(ctx context.Context) error { _, err := e.Reward(ctx, llmrun.Prompt{Text: "3?"}, "4"); return err },
		"Engine.RewardIDs": func(ctx context.Context) error {
			marked, err := e.EncodeText("3 #", llmrun.EncodeOptions{})
			require.NoError(t, err)
			_, err = e.RewardIDs(ctx, marked)
			return err
		},
		"Engine.Summarize": func(ctx context.Context) error {
			_, err := e.Summarize(ctx, document, llmrun.SummarizeOptions{})
			return err
		},
		"Summarizer.Assemble": func(ctx context.Context) error {
			_, err := summarizer.Assemble(ctx, document, load, func(llmrun.SummaryStep) error { return nil })
			return err
		},
		"Summarizer.Answer": func(ctx context.Context) error { _, err := summarizer.Answer(ctx, &step); return err },
		"OpenContext":       func(ctx context.Context) error { _, err := llmrun.OpenContext(ctx, path, model); return err },
		"PlanMemory": func(ctx context.Context) error {
			o := model
			o.Cache.Dir = t.TempDir()
			_, err := llmrun.PlanMemory(ctx, path, o, llmrun.PlanOptions{})
			return err
		},
		"Import": func(ctx context.Context) error {
			_, err := llmrun.Import(ctx, path, t.TempDir()+"/m.pack", llmrun.ImportOptions{})
			return err
		},
		"ImportCached": func(ctx context.Context) error {
			_, err := llmrun.ImportCached(ctx, path, t.TempDir(), 0, nil)
			return err
		},
		"Bundle": func(ctx context.Context) error {
			program, err := os.Executable()
			require.NoError(t, err)
			_, err = llmrun.Bundle(ctx, pack, program, t.TempDir()+"/bundle", llmrun.BundleOptions{})
			return err
		},
		"Calibrate": func(ctx context.Context) error {
			_, err := llmrun.Calibrate(ctx, demoModel, "The fox sleeps.", llmrun.CalibrateOptions{To: t.TempDir() + "/m.w8a8"})
			return err
		},
		"Verify":      func(ctx context.Context) error { return llmrun.Verify(ctx, pack, nil) },
		"VerifyModel": func(ctx context.Context) error { _, err := llmrun.VerifyModel(ctx, path, "", nil); return err },
		"SteppedImport.Write": func(ctx context.Context) error {
			return steps.Write(ctx, out, llmrun.ImportSteps{
				Every: 1 << 20, Checkpoint: func(llmrun.ImportStep) error { return nil },
				Hashes: func(context.Context) (map[string]llmrun.FileHash, error) { return nil, nil },
			})
		},
	}
}

// TestClosedIsNoCancellation closes a session before a call whose context has ended.
func TestClosedIsNoCancellation(t *testing.T) {
	t.Parallel()
	e := open(t, wide(t), llmrun.Options{Threads: 1, Context: 256})
	s := newSession(t, e)
	require.NoError(t, s.Close())
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errGone)
	require.ErrorIs(t, collect(s.GenerateIDs(ctx, someIDs(e, 100), limit(4))).err, llmrun.ErrClosed)
}
