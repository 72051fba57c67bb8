package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// ollamaManifest is a manifest of a registry: the layers of a model.
type ollamaManifest struct {
	Layers []ollamaLayer `json:"layers"`
}

// ollamaLayer is a layer of a manifest, a blob that is named by its hash.
type ollamaLayer struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
}

// Media types of manifests and layers.
const (
	manifestType  = "application/vnd.docker.distribution.manifest.v2+json"
	modelLayer    = "application/vnd.ollama.image.model"
	tensorLayer   = "application/vnd.ollama.image.tensor"
	adapterLayer  = "application/vnd.ollama.image.adapter"
	noGGUFMessage = "the model is no GGUF file"
)

// model returns the layer with the weights, a GGUF file.
func (m *ollamaManifest) model() (found ollamaLayer, err error) {
	count := 0
	for _, layer := range m.Layers {
		kind, _, _ := strings.Cut(layer.MediaType, ";")
		switch kind {
		case modelLayer:
			found = layer
			count++
		case tensorLayer:
			return found, errors.New(noGGUFMessage + ": its tensors are layers of their own")
		case adapterLayer:
			return found, errors.New("the model has an adapter, which is applied beside its weights")
		}
	}
	switch {
	case count == 0:
		return found, errors.New(noGGUFMessage)
	case count > 1:
		return found, fmt.Errorf("the model has %d files with weights", count)
	case !hexDigest.MatchString(found.Digest):
		return found, fmt.Errorf("%w: %q is no hash", ErrServer, limitedLine(found.Digest))
	}
	return found, nil
}

// findOllama finds the GGUF file of ollama:NAME[:TAG].
func (c *Client) findOllama(ctx context.Context, ref Reference) (*Remote, error) {
	name := ref.ollama
	var manifest ollamaManifest
	ask := request{url: name.base() + "/manifests/" + name.tag, header: map[string]string{"Accept": manifestType}}
	if _, err := c.json(ctx, ask, &manifest); err != nil {
		var status *StatusError
		if errors.As(err, &status) {
			switch status.Code {
			case http.StatusNotFound:
				status.Advice = "correct the name or the tag of " + ref.String()
			case http.StatusUnauthorized, http.StatusForbidden:
				status.Advice = "the registry wants a login, which llmrun has not: ollama pull " + name.String() + " downloads it, and -m finds it then"
			}
		}
		return nil, err
	}
	layer, err := manifest.model()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ref, err)
	}
	local := name.name
	if name.tag != ollamaTag {
		local += "-" + name.tag
	}
	file := local + ".gguf"
	return &Remote{Name: local, Path: file, Files: []RemoteFile{{
		Path: file, URL: name.base() + "/blobs/" + layer.Digest, Size: layer.Size, Digest: layer.Digest,
	}}}, nil
}
