package main

import (
	"context"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/internal/enginemodel"
	"github.com/llmrun/llmrun/internal/modelflag"
)

// openWithBudget returns the function that opens a model for bench with a memory budget, as run does.
// Weights are streamed from a pack, so the function imports other models first.
func openWithBudget(t modelflag.Target, kv string, ram int64) func(context.Context, int, int) (*bench.Opened, error) {
	return func(ctx context.Context, threads, longest int) (*bench.Opened, error) {
		progress := func(p llmrun.Progress) { t.Loading(p.Done, p.Total) }
		o := llmrun.Options{
			FS: t.FS, Threads: threads, Context: longest, Progress: progress,
			Memory: llmrun.MemoryOptions{RAM: ram, KV: kv},
			Cache:  llmrun.CacheOptions{ImportProgress: progress},
			Notify: t.Notify,
		}
		(&cacheFlags{noKV: true}).apply(&o)
		engine, err := llmrun.OpenContext(ctx, t.Path, o)
		if err != nil {
			return nil, err
		}
		return &bench.Opened{
			Model: enginemodel.Of(engine), KV: engine.Info().KV, RAM: engine.Memory().Budget, Close: engine.Close,
		}, nil
	}
}
