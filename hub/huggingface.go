package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/llmrun/llmrun/tiering"
)

// hfRevision is the answer of /api/models/REPO/revision/NAME: the commit that the name means now.
type hfRevision struct {
	SHA string `json:"sha"`
}

// hfEntry is an element of the answer of /api/models/REPO/tree/COMMIT.
type hfEntry struct {
	Type string `json:"type"` // "file" or "directory"
	OID  string `json:"oid"`  // git's hash of the file, or of its pointer
	Size int64  `json:"size"`
	Path string `json:"path"`
	LFS  *struct {
		OID  string `json:"oid"` // SHA-256
		Size int64  `json:"size"`
	} `json:"lfs"`
}

// digest returns the published hash of the file.
func (e *hfEntry) digest() string {
	if e.LFS != nil {
		return "sha256:" + strings.TrimPrefix(e.LFS.OID, "sha256:")
	}
	return "git:" + e.OID
}

// maxPages limits the pages of a listing.
const maxPages = 64

var commitName = regexp.MustCompile(`^[0-9a-f]{40}$`)

// findHF finds the files of hf:OWNER/REPO[:QUANT], all of one commit.
func (c *Client) findHF(ctx context.Context, ref Reference) (*Remote, error) {
	endpoint, err := c.endpoint()
	if err != nil {
		return nil, err
	}
	api := endpoint + "/api/models/" + ref.repo
	var revision hfRevision
	if _, err := c.json(ctx, request{url: api + "/revision/main", token: c.Token}, &revision); err != nil {
		return nil, c.adviseHF(ref, err)
	}
	if !commitName.MatchString(revision.SHA) {
		return nil, fmt.Errorf("%s: %w: it names no commit", api, ErrServer)
	}
	entries, err := c.listHF(ctx, api+"/tree/"+revision.SHA+"?recursive=true")
	if err != nil {
		return nil, c.adviseHF(ref, err)
	}
	r := &Remote{}
	variants := ggufVariants(entries)
	if len(variants) > 0 {
		err = r.chooseGGUF(ref, variants)
	} else {
		err = r.chooseDirectory(ref, entries)
	}
	if err != nil {
		return nil, err
	}
	for i, f := range r.Files {
		r.Files[i].URL = endpoint + "/" + ref.repo + "/resolve/" + revision.SHA + "/" + escapePath(f.URL)
		r.Files[i].token = c.Token
	}
	return r, nil
}

// escapePath escapes the elements of a path for a URL.
func escapePath(name string) string {
	elements := strings.Split(name, "/")
	for i, e := range elements {
		elements[i] = url.PathEscape(e)
	}
	return strings.Join(elements, "/")
}

// nextPage matches the address of the next page in a Link header.
var nextPage = regexp.MustCompile(`<([^>]*)>\s*;\s*rel="next"`)

// listHF lists the files of a repository, page by page.
func (c *Client) listHF(ctx context.Context, address string) (files []hfEntry, err error) {
	first, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("HF_ENDPOINT: %w: %w", ErrReference, err)
	}
	for page := 0; address != ""; page++ {
		if page == maxPages {
			return nil, fmt.Errorf("%s: %w: more than %d pages of files", shownURL(first), ErrServer, maxPages)
		}
		var entries []hfEntry
		header, err := c.json(ctx, request{url: address, token: c.Token}, &entries)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.Type != "file" {
				continue
			}
			if e.LFS != nil {
				e.Size = e.LFS.Size
			}
			files = append(files, e)
		}
		address = ""
		if next := nextPage.FindStringSubmatch(header.Get("Link")); next != nil {
			u, err := first.Parse(next[1])
			if err != nil || !sameOrigin(u, first) {
				return nil, fmt.Errorf("%s: %w: the next page of files is on another server", shownURL(first), ErrServer)
			}
			address = u.String()
		}
	}
	return files, nil
}

// adviseHF says what to do about an answer that is no success.
func (c *Client) adviseHF(ref Reference, err error) error {
	var status *StatusError
	if !errors.As(err, &status) {
		return err
	}
	switch status.Code {
	case http.StatusUnauthorized, http.StatusForbidden:
		if status.granted {
			status.Advice = "the token of HF_TOKEN does not open " + ref.repo + ": accept the model's licence on its page, or correct its name"
		} else {
			status.Advice = "correct the name " + ref.repo + ", or set HF_TOKEN to a token of an account that may read it"
		}
	case http.StatusNotFound:
		status.Advice = "correct the name " + ref.repo
	}
	return err
}

// A variant is a GGUF model of a repository, which may have several parts.
type variant struct {
	name  string // without ending and part
	label string // its quantization, or its name
	files []hfEntry
	parts int // that belong to it
	size  int64
}

// quantLabel finds a quantization at the end of a name.
var quantLabel = regexp.MustCompile(`(?i)(?:^|[-._])((?:UD-)?(?:I?Q\d+(?:_[A-Z0-9]+)*|TQ\d+_\d+|BF16|F16|F32|FP16|MXFP4(?:_[A-Z0-9]+)*))$`)

// ggufVariants groups the GGUF files of a repository. Files that hold no language model are left out.
func ggufVariants(entries []hfEntry) []*variant {
	byName := map[string]*variant{}
	for _, e := range entries {
		base := path.Base(e.Path)
		lower := strings.ToLower(base)
		if !strings.HasSuffix(base, ".gguf") || strings.Contains(lower, "mmproj") || strings.Contains(lower, "imatrix") {
			continue
		}
		parts := 1
		if part := partName.FindStringSubmatch(base); part != nil {
			parts, _ = strconv.Atoi(part[3]) // five digits
		}
		key := fmt.Sprintf("%s of %d", path.Join(path.Dir(e.Path), stem(base)), parts)
		v := byName[key]
		if v == nil {
			v = &variant{name: stem(base), parts: parts}
			v.label = v.name
			if label := quantLabel.FindStringSubmatch(v.name); label != nil {
				v.label = label[1]
			}
			byName[key] = v
		}
		v.files = append(v.files, e)
		v.size += e.Size
	}
	list := slices.Collect(maps.Values(byName))
	for _, v := range list {
		slices.SortFunc(v.files, func(a, b hfEntry) int { return cmp.Compare(a.Path, b.Path) })
	}
	slices.SortFunc(list, func(a, b *variant) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.name, b.name))
	})
	return list
}

// usualQuants are the quantizations that are taken when none is asked for, the first that there is.
var usualQuants = []string{"Q4_K_M", "Q4_0", "Q4_K_S", "UD-Q4_K_XL", "Q5_K_M", "Q8_0"}

// chooseGGUF selects the files of a quantization.
func (r *Remote) chooseGGUF(ref Reference, variants []*variant) error {
	v, err := pickVariant(ref, variants)
	if err != nil {
		return err
	}
	if len(v.files) != v.parts {
		return fmt.Errorf("%s: the repository has %d of the %d parts of %s; choose another: %s", ref, len(v.files), v.parts, v.name, labels(variants))
	}
	r.Name = v.name
	for _, e := range v.files {
		r.Files = append(r.Files, RemoteFile{Path: path.Base(e.Path), URL: e.Path, Size: e.Size, Digest: e.digest()})
	}
	r.Path = r.Files[0].Path
	for _, other := range variants {
		if other.size < v.size && len(other.files) == other.parts {
			r.Smaller = append(r.Smaller, Choice{other.label, other.size})
		}
	}
	if ref.variant == "" && len(variants) > 1 {
		r.Note = fmt.Sprintf("%s is %s of %d quantizations: %s", ref, v.label, len(variants), labels(variants))
	}
	return nil
}

// pickVariant returns the variant that a reference means.
func pickVariant(ref Reference, variants []*variant) (*variant, error) {
	if ref.variant == "" {
		if len(variants) == 1 {
			return variants[0], nil
		}
		for _, usual := range usualQuants {
			if v := only(variants, func(v *variant) bool { return strings.EqualFold(v.label, usual) }); v != nil {
				return v, nil
			}
		}
		return nil, fmt.Errorf("%s: choose one with %s:QUANT: %s", ref, ref, labels(variants))
	}
	want := strings.TrimSuffix(ref.variant, ".gguf")
	for _, matches := range []func(*variant) bool{
		func(v *variant) bool { return v.name == want },
		func(v *variant) bool { return strings.EqualFold(v.label, want) },
		func(v *variant) bool {
			return strings.HasSuffix(strings.ToLower(v.name), "-"+strings.ToLower(want))
		},
	} {
		if found := slices.DeleteFunc(slices.Clone(variants), func(v *variant) bool { return !matches(v) }); len(found) == 1 {
			return found[0], nil
		} else if len(found) > 1 {
			var names []string
			for _, v := range found {
				names = append(names, v.name)
			}
			return nil, fmt.Errorf("%s: several files are %s; give the name of one: %s", ref, want, strings.Join(names, ", "))
		}
	}
	return nil, fmt.Errorf("%s: the repository has no %s; choose %s", ref, want, labels(variants))
}

// only returns the one variant that matches, nil if there are none or several.
func only(variants []*variant, matches func(*variant) bool) (found *variant) {
	for _, v := range variants {
		if matches(v) {
			if found != nil {
				return nil
			}
			found = v
		}
	}
	return found
}

// maxLabels limits what an error lists.
const maxLabels = 24

// labels lists the quantizations of a repository with their sizes.
func labels(variants []*variant) string {
	var list []string
	for _, v := range variants {
		if len(list) == maxLabels {
			list = append(list, "…")
			break
		}
		list = append(list, fmt.Sprintf("%s (%s)", v.label, tiering.SizeText(v.size)))
	}
	return strings.Join(list, ", ")
}

// Names of the files of a safetensors model.
const (
	configFile      = "config.json"
	safetensorsFile = "model.safetensors"
	indexFile       = safetensorsFile + ".index.json"
	maxConfigBytes  = 256 << 20
)

// shardName matches the parts of safetensors weights.
var shardName = regexp.MustCompile(`^model-\d{5}-of-(\d{5})\.safetensors$`)

// chooseDirectory selects the weights and the configuration of a safetensors repository.
func (r *Remote) chooseDirectory(ref Reference, entries []hfEntry) error {
	at := map[string]hfEntry{}
	shards, of := 0, 0
	for _, e := range entries {
		at[e.Path] = e
		if shard := shardName.FindStringSubmatch(e.Path); shard != nil {
			shards++
			of, _ = strconv.Atoi(shard[1]) // five digits
		}
	}
	_, single := at[safetensorsFile]
	_, index := at[indexFile]
	_, config := at[configFile]
	switch {
	case !config || !single && !index:
		return fmt.Errorf("%s: the repository has neither GGUF files nor %s with %s", ref, safetensorsFile, configFile)
	case !single && shards != of:
		return fmt.Errorf("%s: the repository has %d of the %d parts of its weights", ref, shards, of)
	case ref.variant != "":
		return fmt.Errorf("%s: the repository has no GGUF files to choose from: leave :%s out", ref, ref.variant)
	}
	r.Name = path.Base(ref.repo)
	r.Path = r.Name
	for _, name := range slices.Sorted(maps.Keys(at)) {
		e := at[name]
		weights := single && name == safetensorsFile || !single && shardName.MatchString(name)
		if weights || belongsBeside(name) && e.Size > 0 && e.Size <= maxConfigBytes && !(single && name == indexFile) {
			r.Files = append(r.Files, RemoteFile{Path: r.Name + "/" + name, URL: name, Size: e.Size, Digest: e.digest()})
		}
	}
	return nil
}

// belongsBeside reports whether a file of a repository belongs to a model: configuration, tokenizer, template.
func belongsBeside(name string) bool {
	return !strings.Contains(name, "/") && CheckName(name) == nil &&
		(path.Ext(name) == ".json" || path.Ext(name) == ".jinja" || name == "tokenizer.model" || name == "merges.txt")
}
