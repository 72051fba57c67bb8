package weights

import (
	"context"
	"fmt"

	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/tiering"
)

// Before reports whether the layout belongs to a layer with a smaller index.
func (l *Layout) Before(layer int) bool {
	return (l.Kind == LayerLayout || l.Kind == expertLayout) && l.Layer < layer
}

// LoadLayers reads the layers of a model without its ends. The caller frees the frames,
// even after an error.
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
	queue.Close() // no read writes to a frame after this
	if err != nil {
		return err
	}
	tiering.JoinPages(ld.Frames)
	return ld.applyOrders()
}

// LoadSequentially reads the layouts one after the other and calls take with each, whose
// frame is the loader's last. So take can copy a layout elsewhere and free its frame before
// the next one is read.
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
