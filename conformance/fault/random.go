package fault

import (
	"math/rand/v2"
	"net/http"
	"time"
)

// Random draws 3 to 10 rules from a seed, for a mixed workload over these steps; the same seed gives the same rules. They are failures that a driver has to
// get over or report: nothing that lasts, no byte that nobody could tell from another.
func Random(seed uint64, steps []string) []Rule {
	rnd := rand.New(rand.NewPCG(seed, 0x7465726b6974))
	rules := make([]Rule, 3+rnd.IntN(8))
	for i := range rules {
		rules[i] = Rule{Step: steps[rnd.IntN(len(steps))], Nth: 1 + rnd.IntN(4), Times: 1 + rnd.IntN(2), Do: randomAction(rnd)}
	}
	return rules
}

func randomAction(rnd *rand.Rand) Action {
	after := rnd.Int64N(200_000)
	choices := []Action{
		Status{Kind: Internal}, Status{Code: http.StatusBadGateway, Kind: BadGateway}, Status{Kind: Unavailable}, Status{Kind: SlowDown},
		Status{Code: http.StatusTooManyRequests, Kind: TooManyRequests}, DropRequest{}, DropResponse{},
		Reset{Of: Request, After: after}, Reset{Of: Response, After: after}, Truncate{After: after}, CleanEOF{After: after},
		StallBody{Of: Request, After: after, For: 50 * time.Millisecond}, StallBody{Of: Response, After: after, For: 50 * time.Millisecond},
		StallHeaders{For: 50 * time.Millisecond}, HTML502(), CloseIdle{}, Duplicate{},
	}
	return choices[rnd.IntN(len(choices))]
}
