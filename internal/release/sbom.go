package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// An sbom lists what the programs of a release were built from, as SPDX 2.3.
type sbom struct {
	files   []spdxFile
	modules map[string]spdxPackage // by identifier
	path    string                 // of the main module
	uses    []spdxRelation
}

type spdxDocument struct {
	Version       string         `json:"spdxVersion"`
	DataLicense   string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      spdxCreation   `json:"creationInfo"`
	Packages      []spdxPackage  `json:"packages"`
	Files         []spdxFile     `json:"files"`
	Relationships []spdxRelation `json:"relationships"`
}

type spdxCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	ID            string    `json:"SPDXID"`
	Name          string    `json:"name"`
	Version       string    `json:"versionInfo"`
	Location      string    `json:"downloadLocation"`
	FilesAnalyzed bool      `json:"filesAnalyzed"`
	Concluded     string    `json:"licenseConcluded"`
	Declared      string    `json:"licenseDeclared"`
	Copyright     string    `json:"copyrightText"`
	Comment       string    `json:"comment,omitempty"`
	Refs          []spdxRef `json:"externalRefs,omitempty"`
}

type spdxRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxFile struct {
	ID        string         `json:"SPDXID"`
	Name      string         `json:"fileName"`
	Types     []string       `json:"fileTypes"`
	Checksums []spdxChecksum `json:"checksums"`
	Concluded string         `json:"licenseConcluded"`
	Copyright string         `json:"copyrightText"`
}

type spdxChecksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type spdxRelation struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

const (
	documentID = "SPDXRef-DOCUMENT"
	mainID     = "SPDXRef-Package-llmrun"
	noLicense  = "NOASSERTION"
)

// notInID are the characters that SPDX identifiers do not have.
var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// newPackage describes a Go module.
func newPackage(path, version, sum string) spdxPackage {
	p := spdxPackage{
		ID: "SPDXRef-Package-" + notInID.ReplaceAllString(path+"-"+version, "-"), Name: path, Version: version, Location: noLicense,
		Concluded: noLicense, Declared: noLicense, Copyright: noLicense,
		Refs: []spdxRef{{"PACKAGE-MANAGER", "purl", fmt.Sprintf("pkg:golang/%s@%s", path, version)}},
	}
	if sum != "" {
		p.Comment = "go.sum: " + sum
	}
	return p
}

// add adds a program and the modules that its build information lists.
func (b *sbom) add(p *program) error {
	info, err := buildinfo.Read(bytes.NewReader(p.data))
	if err != nil {
		return fmt.Errorf("%s: reading its build information: %w", p.path, err)
	}
	b.addBuild(p, info)
	return nil
}

// addBuild adds a program with its build information.
func (b *sbom) addBuild(p *program, info *buildinfo.BuildInfo) {
	sum := sha256.Sum256(p.data)
	f := spdxFile{
		ID: "SPDXRef-File-" + notInID.ReplaceAllString(filepath.Base(p.path), "-"), Name: "./" + filepath.Base(p.path), Types: []string{"BINARY"},
		Checksums: []spdxChecksum{{"SHA256", hex.EncodeToString(sum[:])}}, Concluded: "Apache-2.0", Copyright: noLicense,
	}
	b.files = append(b.files, f)
	b.uses = append(b.uses, spdxRelation{f.ID, "GENERATED_FROM", mainID})
	if b.modules == nil {
		b.modules = map[string]spdxPackage{}
	}
	b.path = info.Main.Path
	modules := []spdxPackage{newPackage("stdlib", strings.TrimPrefix(info.GoVersion, "go"), "")}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		modules = append(modules, newPackage(dep.Path, dep.Version, dep.Sum))
	}
	for _, m := range modules {
		b.modules[m.ID] = m
		b.uses = append(b.uses, spdxRelation{f.ID, "DEPENDS_ON", m.ID})
	}
}

// encode returns the document. Its namespace follows from its content.
func (b *sbom) encode(version string, at time.Time) ([]byte, error) {
	main := newPackage(b.path, version, "")
	main.ID, main.Concluded, main.Declared = mainID, "Apache-2.0", "Apache-2.0"
	demo := newPackage("llmrun-demo-model", version, "")
	demo.Refs, demo.Comment = nil, "the weights of the bundled demo model; llmrun licenses prints the sources of its training text and their licences"
	d := spdxDocument{
		Version: "SPDX-2.3", DataLicense: "CC0-1.0", ID: documentID, Name: "llmrun-" + version,
		Creation: spdxCreation{at.Format(time.RFC3339), []string{"Tool: llmrun-internal-release"}},
		Packages: []spdxPackage{main, demo}, Files: b.files,
		Relationships: append([]spdxRelation{{documentID, "DESCRIBES", mainID}, {mainID, "CONTAINS", demo.ID}}, b.uses...),
	}
	for _, id := range slices.Sorted(mapKeys(b.modules)) {
		d.Packages = append(d.Packages, b.modules[id])
	}
	slices.SortFunc(d.Files, func(x, y spdxFile) int { return cmp.Compare(x.ID, y.ID) })
	content, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	d.Namespace = "https://spdx.org/spdxdocs/llmrun-" + version + "-" + hex.EncodeToString(sum[:16])
	content, err = json.MarshalIndent(d, "", " ")
	return append(content, '\n'), err
}
