package weights

import (
	"context"
	"fmt"

	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/tiering"
)

// Before reports whether the layout belongs to a layer before one.
func (l *Layout) Before(layer int) bool {
	return (l.Kind == LayerLayout || l.Kind == expertLayout) && l.Layer < layer
}

// LoadLayers reads the layers of a model, without its ends. The caller has to free the
// frames after an error too.
func (ld *Loader) LoadLayers(ctx context.Context, w *Weights) error {
	plans, err := ld.planLayers(w)
	if err != nil {
		return err
	}
	for i := range plans {
		ld.findSection(&plans[i])
	}
	ld.Total += ReadBytes(plans)
	queue := prefetch.New(loadReaders)
	err = ld.readAll(ctx, queue, plans)
	queue.Close() // nothing is written to frames from here on
	if err != nil {
		return err
	}
	tiering.JoinPages(ld.Frames)
	return ld.applyOrders()
}

// LoadSequentially reads a model so that no more than one part of it need be in memory as
// the file has it: take is called with each, whose frame is the loader's last.
func (ld *Loader) LoadSequentially(ctx context.Context, plans []Layout, take func(*Layout) error) error {
	ld.Total += ReadBytes(plans)
	queue := prefetch.New(loadReaders)
	defer queue.Close()
	for i := range plans {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := ld.readAll(ctx, queue, plans[i:i+1]); err != nil {
			return err
		}
		if err := take(&plans[i]); err != nil {
			return fmt.Errorf("%s of %s: %w", plans[i].Name, ld.Tensors.Path, err)
		}
	}
	return nil
}
