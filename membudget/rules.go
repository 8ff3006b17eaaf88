package membudget

// rules names the decisions of the budget one by one. The product always runs with all of them; the simulation switches one off at a time and shows
// that the budget then fails, so that nobody later removes a rule that looks superfluous. doc.go says why each exists.
type rules struct {
	fetchFloor        bool // copies leave F free
	copyFloor         bool // fetches, caches and read-ahead leave C free
	fifo              bool // nobody gets bytes before an earlier waiter
	passOver          bool // but for a waiter whose class is at its ceiling and that reclaiming cannot help
	passOverCeiling   bool // a waiter below its ceiling is not passed over
	passOverDry       bool // a waiter that reclaiming could help is not passed over
	growYields        bool // no TryGrow and no TryReserve in a class that has a waiter
	growYieldsOther   bool // nor before a waiter of the other class that may not be passed over
	cancelReruns      bool // a cancelled waiter makes the queue run again
	refuseTooLarge    bool // a need above its ceiling fails at once
	aheadYields       bool // read-ahead gets nothing while anybody waits
	aheadLeaves       bool // read-ahead leaves one fetch's need free
	aheadNoReclaim    bool // read-ahead takes nothing from caches
	reclaimOnWait     bool // reclaim before a wait
	reclaimOnRelease  bool // at a Release while somebody waits
	reclaimOnIdle     bool // at an Idle while somebody waits
	reclaimOnCancel   bool // at a cancelled wait while somebody else waits
	reclaimOnGrow     bool // before a TryGrow or TryReserve of a copy or fetch fails
	reclaimOnlyToHelp bool // never for a copy at its ceiling
	splitReturns      bool // released bytes of a Split go to the open parent
	detachCuts        bool // but not if it was detached
	chargeCapacity    bool // buffers are charged by what they occupy
	idleCounts        bool // idle buffers count against the limit
}

// allRules is what New uses.
func allRules() rules {
	return rules{
		fetchFloor: true, copyFloor: true, fifo: true, passOver: true, passOverCeiling: true, passOverDry: true,
		growYields: true, growYieldsOther: true, cancelReruns: true, refuseTooLarge: true,
		aheadYields: true, aheadLeaves: true, aheadNoReclaim: true,
		reclaimOnWait: true, reclaimOnRelease: true, reclaimOnIdle: true, reclaimOnCancel: true, reclaimOnGrow: true, reclaimOnlyToHelp: true,
		splitReturns: true, detachCuts: true, chargeCapacity: true, idleCounts: true,
	}
}

func (r *rules) reclaimAt(m moment) bool {
	switch m {
	case atWait:
		return r.reclaimOnWait
	case atRelease:
		return r.reclaimOnRelease
	case atIdle:
		return r.reclaimOnIdle
	case atCancel:
		return r.reclaimOnCancel
	}
	return false
}
