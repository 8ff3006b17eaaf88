package settings

import "strings"

// Nearest returns the known name closest to key by edit distance, or "" if none is close: at most a third of the key may differ. A
// known name that only lacks leading parts of key, or has more of them, counts as close too ("chunk.sise", "storage.chunk.size").
// A dynamic name is compared without the part that the user chooses.
func Nearest(key string, known []string) string {
	const longest = 200 // keys come from strangers; the distance costs their product
	if len(key) == 0 || len(key) > longest {
		return ""
	}
	best, bestAt := "", len(key)/3+1
	for _, name := range known {
		d := editDistance(key, name)
		if strings.HasSuffix(key, "."+name) || strings.HasSuffix(name, "."+key) {
			d = 1
		}
		if before, after, ok := strings.Cut(name, ID); ok {
			d = dynamicDistance(key, before, after)
		}
		if d < bestAt {
			best, bestAt = name, d
		}
	}
	return best
}

// dynamicDistance compares only the fixed parts, when key begins or ends with one of them.
func dynamicDistance(key, before, after string) int {
	if rest, ok := strings.CutPrefix(key, before); ok {
		return editDistance(rest[max(0, len(rest)-len(after)):], after)
	}
	if rest, ok := strings.CutSuffix(key, after); ok {
		return editDistance(rest[:min(len(rest), len(before))], before)
	}
	return len(key)
}

// editDistance counts the insertions, deletions, replacements and swaps of neighbours that make a into b.
func editDistance(a, b string) int {
	before, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}
