package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/hub"
	"github.com/llmrun/llmrun/serve"
)

// puller downloads models for clients of ollama's API, as pull does. Where models do not run well nobody can be asked, so they are
// downloaded all the same.
type puller struct {
	client *hub.Client
	store  *hub.Store
	// complete sets the options of a model.
	complete func(*serve.Model) error
}

// ollamaOrigin begins names of ollama's own registry that are spelled in full.
const ollamaOrigin = "registry.ollama.ai/"

// clientReference returns what a client's name means: as in ollama, a name of its registry, or hf.co/OWNER/REPO[:QUANT]; and what
// llmrun pull takes. Other servers are left to the user of this machine, whose network a client might not see.
func clientReference(name string) (hub.Reference, error) {
	text := name
	for _, host := range []string{"hf.co/", "huggingface.co/"} {
		if rest, ok := strings.CutPrefix(name, host); ok {
			text = "hf:" + rest
		}
	}
	if !strings.HasPrefix(text, "hf:") {
		text = "ollama:" + strings.TrimPrefix(strings.TrimPrefix(text, "ollama:"), ollamaOrigin)
		if strings.Count(text, "/") > 1 || strings.Contains(text, "://") {
			return hub.Reference{}, fmt.Errorf("%w: models of other servers than huggingface.co and ollama's registry are downloaded by llmrun pull", llmrun.ErrOptions)
		}
	}
	ref, err := hub.ParseReference(text)
	if err != nil {
		return ref, fmt.Errorf("%w: %w", llmrun.ErrOptions, err)
	}
	return ref, nil
}

// offered returns a model that is here as the server offers it.
func (p *puller) offered(m *hub.Model) (serve.Model, error) {
	model := serve.Model{Name: m.Name, Path: m.Path}
	if name, ok := strings.CutPrefix(m.From, "ollama:"); ok && name != m.Name {
		model.Names = []string{name}
	}
	if name, ok := strings.CutPrefix(m.From, "hf:"); ok {
		model.Names = []string{"hf.co/" + name}
	}
	return model, p.complete(&model)
}

// Models implements serve.Puller. What cannot be read is no reason not to serve the others.
func (p *puller) Models() (all []serve.Model, err error) {
	models, _, err := p.store.Models()
	if err != nil {
		p.client.Notify(err.Error())
	}
	for i := range models {
		if m, err := p.offered(&models[i]); err == nil { // else its file is gone
			all = append(all, m)
		}
	}
	return all, nil
}

// Pull implements serve.Puller.
func (p *puller) Pull(ctx context.Context, name string, progress func(serve.PullProgress)) (serve.Model, error) {
	ref, err := clientReference(name)
	if err != nil {
		return serve.Model{}, err
	}
	remote, err := p.client.Find(ctx, ref)
	if err != nil {
		return serve.Model{}, err
	}
	m, err := p.store.Pull(ctx, p.client, remote, func(done, _ int64) { progress(fileProgress(remote, done)) })
	if err != nil {
		return serve.Model{}, err
	}
	return p.offered(&m)
}

// fileProgress returns the progress of the file that is on its way: files are downloaded one after the other.
func fileProgress(remote *hub.Remote, done int64) serve.PullProgress {
	last := len(remote.Files) - 1
	for i := range remote.Files {
		f := &remote.Files[i]
		if done <= f.Size || i == last {
			return serve.PullProgress{File: f.Path, Digest: f.Digest, Completed: done, Total: f.Size}
		}
		done -= f.Size
	}
	return serve.PullProgress{}
}

// Remove implements serve.Puller.
func (p *puller) Remove(name string) error {
	_, err := p.store.Remove(name)
	return err
}
