package arch

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// markdownLink matches the target of a link or picture: [text](target), <img src="target">.
var markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|href)="([^"]+)"`)

// codeBlock is text in which nothing is a link.
var codeBlock = regexp.MustCompile("(?s)```.*?```")

// targets returns what a page links to inside the tree, without the part behind #.
func targets(page string) []string {
	var found []string
	for _, m := range markdownLink.FindAllStringSubmatch(codeBlock.ReplaceAllString(page, ""), -1) {
		target, _, _ := strings.Cut(m[1]+m[2], "#")
		if target != "" && !strings.Contains(target, ":") {
			found = append(found, target)
		}
	}
	return found
}

func TestDocs_LinksLeadSomewhere(t *testing.T) {
	root, names := trackedFiles(t)
	pages := 0
	for _, name := range names {
		if filepath.Ext(name) != ".md" || strings.Contains(name, "testdata/") {
			continue
		}
		pages++
		for _, target := range targets(string(read(t, root, name))) {
			file := path.Join(path.Dir(name), target)
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
				t.Errorf("%s links to %s: %v", name, target, err)
			}
		}
	}
	if pages == 0 {
		t.Fatal("no page seen")
	}
}

func TestDocs_TargetsOfLinks(t *testing.T) {
	const page = `[a](b.md#part) ![p](docs/x.svg) [site](https://example.com/y) [here](#below) ` + "```go\nm[k](err)\n```" + ` <img src="z.svg" width="9">`
	if got, want := strings.Join(targets(page), " "), "b.md docs/x.svg z.svg"; got != want {
		t.Errorf("targets = %s, want %s", got, want)
	}
}
