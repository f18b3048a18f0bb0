/** How soon somebody looks after what is under way, in milliseconds. */
export const PACE = {
  /** While a run or a session is at work, it is looked after that much later. */
  late: 45_000,
  /** So long a step may take that is being made: of a model's call, the longest there is. */
  step: 930_000,
  /** One that was asked and didn't go on is asked again after that time. */
  again: 12_000,
  /** It has that long to go on from when it was first asked. */
  goes_on: 40_000,
  /** What is stuck is asked that often, and likewise what a suspended org has under way. */
  stuck: 60_000,
  suspended: 600_000,
  /** Of what ends of an agent, its health hears at once; it is judged that much later, unless somebody asks before. */
  judged: 60_000,
  /** Who tells at the same moment wakes a Dispatcher once: what is told within that time is. By then an answer is out. */
  told: 2,
};
