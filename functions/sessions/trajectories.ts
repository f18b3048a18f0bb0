import { allow } from "../../lib/auth/allow.ts";
import { givesPieces } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { parseId } from "../../lib/ids.ts";
import { sessionOfTrajectory } from "../../lib/sessions/queries.ts";
import { contentsOf, trajectoryOf } from "../../lib/trajectories/read.ts";
import { contents, trajectory } from "../../lib/trajectories/schema.ts";

const trajectories = router();

trajectories.get(
  "/api/v1/trajectories/:trajectory",
  named("Get a trajectory"),
  allow("trajectories:read"),
  givesPieces(trajectory),
  async (c) => {
    const row = await sessionOfTrajectory(c.var.db, parseId("trajectory", c.req.param("trajectory")));
    return c.var.write(await trajectoryOf(c.env, row));
  },
);

trajectories.get(
  "/api/v1/trajectories/:trajectory/contents",
  named("Get the raw contents of a trajectory"),
  allow("trajectories:read"),
  givesPieces(contents),
  async (c) => {
    const row = await sessionOfTrajectory(c.var.db, parseId("trajectory", c.req.param("trajectory")));
    return c.var.write(await contentsOf(c.env, row));
  },
);

export default trajectories;
